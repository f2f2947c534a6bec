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
 * next. Its Tasks are separate streams: this state holds what the Mission dispatched and what it knows about their
 * ends.
 */

export type Dispatched = Omit<EventData["task.dispatched"], "sessionID" | "lookAt"> & {
  /** The attempts that ended, oldest first. */
  ends: EventData["task.ended"][];
  /** The newest attempt that began, as far as the Mission knows. */
  attempt: number;
  /** When the Mission's agent wants to be woken to look at the Task; null: only at its end. */
  lookAt: string | null;
  /**
   * The call id of the Mission's report that was valid when a person began the Task's newest attempt, which outdates
   * the report. Absent: there was none.
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
  /** The pull request of the Mission's branch as a whole. */
  pullRequest: EventData["mission.proposed"]["pullRequest"];
  /** The commit of the branch that was last proposed. */
  proposed: string | null;
  /** The Mission reported that it is done, and what landed has not been proposed since. */
  proposes: boolean;
  /** Where the phases land: each on the project's branch, or all on the Mission's own. */
  landing: MissionLanding;
  /** When the Mission's own branch is merged, for a project that is a directory. */
  merge: MissionMerge;
  /**
   * The Mission's own branch in a directory's repository; null: it has none (yet). `of`: the full name of the branch
   * that it is merged into. `used`: a Task was dispatched on it, so its commits are the Mission's.
   */
  branch: { name: string; commit: string; of: string | null; used: boolean } | null;
  /**
   * `unmerged`: something landed on the branch for which no merge has begun. `mergeProblem`: why the newest merge
   * failed, or could not begin.
   */
  unmerged: boolean;
  mergeProblem: string | null;
  productPillar: "code" | "work";
  /** The priority of the Mission's own agent, and of Tasks for which that agent names none. */
  priority: Priority;
  metadata: NonNullable<EventData["mission.woken"]["metadata"]>;
  /** Limits that replace the service's. */
  limits: OwnLimits;
  /** The address for notifications, without its query; null: none. */
  callbackURL: string | null;
  /** The only squads that the Mission may use; empty: any. */
  squads: string[];
  allowSquadProduction: boolean | null;
  /**
   * The budget of the Mission and its Tasks together. `budget` of the shared state stays null, because it is for a
   * single agent.
   */
  cap: MissionBudget | null;
  /** What the project's head must pass before the Mission can be done. */
  checks: CheckSpec[];
  /** The caller asked for neither checks nor a verdict. */
  unchecked: boolean;
  /** The newest result of `checks`. */
  acceptance: EventData["mission.verified"] | null;
  /** The newest result of checks that its agent chose itself. */
  verification: EventData["mission.verified"] | null;
  /**
   * What needs a person's approval before it happens: the Mission's own plan, and the squads and landings of its Tasks.
   */
  approve: Approvable[];
  /**
   * `approvedPlan`: the plan that was last approved, kept when a person denies a later one (`planDenied`). `askedPlan`:
   * the plan that was last presented for approval. `refusedBy`: who denied it without words.
   */
  approvedPlan: string | null;
  planDenied: boolean;
  askedPlan: string | null;
  refusedBy: string | null;
  /**
   * The total time that the Mission's own model took to answer, in milliseconds. The time of its tools is negligible.
   */
  answeredMs: number;
  archived: boolean;
  createdAt: string;
  /** Whether the stream must stay claimed or due: `active` while its agent has something to do. */
  lifecycle: LifecycleStatus;
  aborted: (EventData["mission.aborted"] & { at: string }) | null;
  /** The model that a caller named: for its agent, and for Tasks whose squad names none. */
  named: ModelRef | null;
  /** The models that callers named by role; they take precedence over `named`. */
  models: { tasks: ModelRef | null; review: ModelRef | null };
  /** The files that came with its wakes, newest last: the newest of each name, at most 64. */
  attachments: AttachmentRef[];
  plan: PlannedPhase[];
  /** Version of the newest change of the plan; 0: none yet. */
  planRevision: number;
  /** Version of the newest change of the plan by a person, which its agent reads before it acts on the plan again. */
  planEdited: number;
  tasks: Dispatched[];
  /** Questions of its Tasks that the Mission has not answered. */
  questions: { taskID: string; askID: string }[];
  finished: EventData["mission.finished"] | null;
  /**
   * Set while the whole is being judged, after its agent declared the Mission done and before that declaration counts.
   */
  judging: Omit<EventData["mission.judging"], "sessionID"> | null;
  /**
   * The newest verdict on the whole. `callID`: the declaration that it was requested for. `heard`: as in its Task's
   * `judges`.
   */
  verdict: (NonNullable<MissionStatus["verdict"]> & { callID: string; heard: number }) | null;
  /** Version of the newest message of a person. */
  words: number;
  /** How often the whole was judged since the newest message of a person. */
  judged: number;
  reminded: boolean;
  /**
   * Whether the finished calls of its agent's newest reply gave work to Tasks and left it nothing to read; null: not
   * decided yet. See `domain/mission/hand-on.ts`.
   */
  handedOn: boolean | null;
  paused: EventData["mission.paused"] | null;
  /** The newest notice to watchers: that the Mission stands still, or waits for a time; null: none. */
  told: "stalled" | "waiting" | null;
  /** Why its agent could not continue. */
  failure: { failure: TurnFailure; at: string } | null;
};

/** Whether a Task is the service's own, for the whole Mission instead of a phase: it merges the branch, or judges. */
export const isOfService = ({ merge, judges }: Dispatched): boolean => merge !== undefined || judges !== undefined;

/** Whether a Task does the work of a phase: it produces no squad, merges nothing and judges nothing. */
export const isWork = (task: Dispatched): boolean => task.production === null && !isOfService(task);

/**
 * The agent's report on the whole; null: none was given, or a person has continued a Task since. When that Task ends,
 * the agent is woken, or the report is valid again.
 */
export const reportOf = ({ finished, tasks }: MissionState): MissionState["finished"] =>
  tasks.some((task) => isWork(task) && isRunning(task) && task.outdates === finished?.callID) ? null : finished;

/** The newest attempt of a Task whose end the Mission knows; 0: none. */
export const endedOf = (task: Dispatched): number => task.ends.at(-1)?.attempt ?? 0;

/** Whether the Task's newest attempt has not ended, as far as the Mission knows. */
export const isRunning = (task: Dispatched): boolean => endedOf(task) < task.attempt;

/** The end of the newest completed attempt: what it landed stays, whatever became of a later correction. */
export const deliveredBy = ({ ends }: Dispatched): EventData["task.ended"] | undefined =>
  ends.findLast(({ outcome }) => outcome === "completed");

export const outcomeOf = (task: Dispatched): EventData["task.ended"]["outcome"] | undefined =>
  task.ends.at(-1)?.outcome;

/** Why the Mission's agent does not continue: the Mission was aborted, or the agent failed. */
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
