import type { CheckSpec } from "../../protocol/check.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { Approvable, MissionLanding, MissionMerge, OwnLimits } from "../../protocol/field.ts";
import type { TurnFailure } from "../../protocol/event/conversation.ts";
import type { AttachmentRef } from "../../protocol/text.ts";
import type { MissionBudget, MissionStatus, PlannedPhase } from "../../protocol/mission/status.ts";
import type { ErrorInfo, LifecycleStatus, Priority } from "../../protocol/task/status.ts";
import type { ModelRef, SquadRef } from "../agent.ts";
import type { StreamState } from "./stream.ts";

/**
 * The state of a Mission, folded from events by `mission/evolve.ts`; `mission/next.ts` decides what its agent does
 * next. Its Tasks are separate streams: this holds what the Mission dispatched and what it knows of their ends.
 */

export type Dispatched = Omit<EventData["task.dispatched"], "sessionID" | "lookAt"> & {
  /** The attempts that ended, oldest first. */
  ends: EventData["task.ended"][];
  /** The newest attempt that began, as far as the Mission knows. */
  attempt: number;
  /** When its agent wants to hear of it; null: at its end alone. */
  lookAt: string | null;
  /**
   * The call of the report that stood when its newest attempt was begun: a person went on after that. Absent: none
   * stood.
   */
  outdates?: string;
  /** For a Task that produces a squad: what the catalog showed afterwards. */
  reconciled: SquadRef | { refused: string } | null;
};

export type MissionRepository = NonNullable<EventData["mission.created"]["repository"]>;

export type MissionState = StreamState & {
  missionID: string;
  /** Also the stream's id. */
  sessionID: string;
  title: string;
  titleBy: "caller" | "service";
  directory: string;
  project: string;
  /** null: the project is a directory. */
  repository: MissionRepository | null;
  /** Of its branch as a whole. */
  pullRequest: EventData["mission.proposed"]["pullRequest"];
  /** The commit of its branch that was proposed last. */
  proposed: string | null;
  /** It said that it is done, and what landed was not proposed since. */
  proposes: boolean;
  /** Where its phases land: each on the project's branch, or all on its own. */
  landing: MissionLanding;
  /** When its own branch is merged, in a directory. */
  merge: MissionMerge;
  /**
   * Its own branch in a directory's repository; null: it has none (yet). `of`: full name of the branch it is merged
   * into. `used`: a Task was dispatched on it, so that whatever stands there is the Mission's.
   */
  branch: { name: string; commit: string; of: string | null; used: boolean } | null;
  /** Something landed there that no merge has been begun for; and why the newest one came to nothing. */
  unmerged: boolean;
  mergeProblem: string | null;
  productPillar: "code" | "work";
  /** Of its own agent, and of Tasks for which that names none. */
  priority: Priority;
  metadata: NonNullable<EventData["mission.woken"]["metadata"]>;
  /** In the place of the service's. */
  limits: OwnLimits;
  /** Without its query; null: none. */
  callbackURL: string | null;
  /** The only squads it may use; empty: any. */
  squads: string[];
  allowSquadProduction: boolean | null;
  /**
   * For the Mission and its Tasks together. `budget` of the shared fold stays null, since that is for a single agent.
   */
  cap: MissionBudget | null;
  /** What the project's head must pass before the Mission can be done. */
  checks: CheckSpec[];
  /** Its caller wants neither checks nor a verdict. */
  unchecked: boolean;
  /** The newest result of those checks. */
  acceptance: EventData["mission.verified"] | null;
  /** The newest result of checks of its agent's own. */
  verification: EventData["mission.verified"] | null;
  /** What a person is asked before it happens: its own plan, and squads and landings of its Tasks. */
  approve: Approvable[];
  /**
   * The plan that was approved last, also after a person said no to a later one (`planDenied`); the one that was asked
   * about last, and who refused that without a word.
   */
  approvedPlan: string | null;
  planDenied: boolean;
  askedPlan: string | null;
  refusedBy: string | null;
  /** Total time that its own model took to answer, in milliseconds. The time of its tools is negligible. */
  answeredMs: number;
  archived: boolean;
  createdAt: string;
  /** Whether its stream must stay claimed or due: `active` while its agent has something to do. */
  lifecycle: LifecycleStatus;
  aborted: (EventData["mission.aborted"] & { at: string }) | null;
  /** The model that a caller named: for its agent, and for Tasks whose squad names none. */
  named: ModelRef | null;
  /** Those that callers named by role, before `named`. */
  models: { tasks: ModelRef | null; review: ModelRef | null };
  /** Files that came with its wakes, newest last: the newest of each name, up to 64. */
  attachments: AttachmentRef[];
  plan: PlannedPhase[];
  /** Version of the newest change of the plan; 0: there was none. */
  planRevision: number;
  /** Version of the newest change of the plan by a person, which its agent reads before it acts on the plan again. */
  planEdited: number;
  tasks: Dispatched[];
  /** What its Tasks ask it, and it has not answered. */
  questions: { taskID: string; askID: string }[];
  finished: EventData["mission.finished"] | null;
  /** Its agent says that it is done, and the whole is judged before that stands. */
  judging: Omit<EventData["mission.judging"], "sessionID"> | null;
  /**
   * The newest verdict on the whole. `callID`: of the declaration that it was asked for. `heard`: as in its Task's
   * `judges`.
   */
  verdict: (NonNullable<MissionStatus["verdict"]> & { callID: string; heard: number }) | null;
  /** Version of the newest words of a person. */
  words: number;
  /** How often the whole was judged since a person last said something. */
  judged: number;
  reminded: boolean;
  /** What the calls of its agent's newest reply that have ended leave to be read (`domain/mission/hand-on.ts`). */
  handedOn: boolean | null;
  paused: EventData["mission.paused"] | null;
  /** Whoever watches was told that it stands still, or waits for a time. */
  told: "stalled" | "waiting" | null;
  /** Why its agent could not continue. */
  failure: { failure: TurnFailure; at: string } | null;
};

/** The service's own, for the whole and no phase of the plan: it merges the branch, or judges. */
export const isOfService = ({ merge, judges }: Dispatched): boolean => merge !== undefined || judges !== undefined;

/** It does the work of a phase: it makes no squad for one, merges nothing and judges nothing. */
export const isWork = (task: Dispatched): boolean => task.production === null && !isOfService(task);

/**
 * Its agent's report on the whole; null: it has given none, or a person has a Task of it go on since. When that ends
 * its agent is woken, or the report stands again.
 */
export const reportOf = ({ finished, tasks }: MissionState): MissionState["finished"] =>
  tasks.some((task) => isWork(task) && isRunning(task) && task.outdates === finished?.callID) ? null : finished;

/** The newest attempt of a Task whose end the Mission knows; 0: none. */
export const endedOf = (task: Dispatched): number => task.ends.at(-1)?.attempt ?? 0;

/** Whether the Task's newest attempt has not ended, as far as the Mission knows. */
export const isRunning = (task: Dispatched): boolean => endedOf(task) < task.attempt;

/** The newest attempt that was completed: what it landed stays, whatever became of a correction. */
export const deliveredBy = ({ ends }: Dispatched): EventData["task.ended"] | undefined =>
  ends.findLast(({ outcome }) => outcome === "completed");

export const outcomeOf = (task: Dispatched): EventData["task.ended"]["outcome"] | undefined =>
  task.ends.at(-1)?.outcome;

/** Why its agent does not continue: it was aborted, or it failed. */
export const errorOf = ({ aborted, failure }: MissionState): { error: string; errorInfo: ErrorInfo } | undefined => {
  if (aborted !== null) {
    const { surface, reason, at } = aborted;
    const remedy = "Wake the Mission to continue.";
    return {
      error: `Aborted by ${surface}${reason === "" ? "" : `: ${reason}`}`,
      errorInfo: { code: "aborted", retryable: false, remedy, at },
    };
  }
  if (failure === null) return undefined;
  const { code, message, retryable, remedy } = failure.failure;
  return { error: message, errorInfo: { code, retryable, remedy, at: failure.at } };
};
