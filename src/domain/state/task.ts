import type { TurnFailure } from "../../protocol/event/conversation.ts";
import type { AttachmentRef } from "../../protocol/text.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { Given } from "../../protocol/event/workspace.ts";
import type { LongText } from "../../protocol/text.ts";
import type { Artifact, Budget, ErrorInfo, LifecycleStatus, Priority, Usage } from "../../protocol/task/status.ts";
import type { CheckSpec } from "../../protocol/check.ts";
import type { Circle } from "../session/repetition.ts";
import type { ModelRef, SquadRef } from "../agent.ts";
import type { Proof } from "../evidence/evidence.ts";
import type { Slice } from "../evidence/slice.ts";
import type { StreamState } from "./stream.ts";

/**
 * What is known of a Task, and the questions that are asked of it. `evolve.ts` makes it of events. What happens next
 * stands in `next.ts`, the decision on a cancel in `cancel.ts`, the ways to end in `end.ts`.
 */

export type Open = {
  callID: string;
  sessionID: string;
  tool: string;
  effect: "none" | "log" | "workspace" | "unknown";
  /** Of tool and arguments; see circle.ts. */
  mark: number;
  /** What a command was, for the evidence. */
  label?: string;
};

/** `begun`: what was permitted has been started, so it is not done again. */
export type Ask = EventData["ask.opened"] & { answer: EventData["ask.answered"] | null; begun: boolean };

export type CheckRun = EventData["check.finished"];

export type Session = {
  sessionID: string;
  parentSessionID: string | null;
  agent: string;
  kind: "mission" | "orchestrator" | "agent";
  model: string;
  usage: Usage;
  startedAt: string;
  /** The call that delegated to it; null: the Orchestrator's, or a review's. */
  callID: string | null;
  purpose: "work" | "review";
  /** The slices that it was given; empty: those that nobody else was. */
  sliceIDs: string[];
  /** Checks whose criteria it judges, and what it said of them. */
  checkIDs: string[];
  judged: Record<string, Pick<EventData["check.judged"], "verdict" | "notes">>;
  /** Somebody has it stopped. */
  interrupted: Pick<EventData["session.interrupted"], "surface" | "reason"> | null;
  /** The files of its own that it works in; null: the Task's. */
  fork: NonNullable<EventData["session.started"]["fork"]> | null;
  /** Edits of the Task's files when it began. */
  edits: number;
  /** Its last reply; the Orchestrator's is the Task's own. */
  reply: TaskState["reply"];
  circle: Circle;
  end: (Omit<EventData["session.ended"], "sessionID"> & { at: string }) | null;
};

export type TaskState = {
  taskID: string;
  version: number;
  position: number;
  title: string;
  titleBy: "caller" | "service";
  request: LongText;
  productPillar: "code" | "work";
  priority: Priority;
  source: string;
  directory: string;
  project: string;
  checks: CheckSpec[];
  /** The project's own, for a request without any; they decide nothing. */
  own: CheckSpec[];
  attachments: AttachmentRef[];
  metadata: EventData["task.created"]["metadata"];
  squad: SquadRef;
  /** The Mission that dispatched it, and for which phase; null: a Task of its own. */
  mission: NonNullable<EventData["task.created"]["mission"]> | null;
  /** Set of a Task that makes a squad: its package is installed when it lands. */
  production: NonNullable<EventData["task.created"]["production"]> | null;
  /** Where its ends and asks are told, without the query. */
  callbackURL: string | null;
  staged: EventData["squad.staged"] | null;
  /** The digest of the package whose install was begun. */
  installing: string | null;
  installed: EventData["squad.installed"] | null;
  /** The model that is asked now; `wanted` is the one that the Task began with. */
  model: ModelRef;
  wanted: ModelRef;
  /** Models that refused since the last reply, so that no circle is walked. */
  tried: ModelRef[];
  isolation: "worktree" | "directory";
  landing: "commit" | "branch" | "none";
  budget: Budget | null;
  archived: boolean;
  createdAt: string;
  startedAt: string | null;
  updatedAt: string;
  settledAt: string | null;
  lifecycle: LifecycleStatus;
  /** 1, and one more for every message that made a settled Task active again. */
  attempt: number;
  error: string | null;
  errorInfo: ErrorInfo | null;
  sessions: Session[];
  slices: Slice[];
  /** What the service saw of the work. */
  proofs: Proof[];
  /** External agents' own ids of their sessions, by ours. */
  attached: Record<string, string>;
  /** Runs that died while the same local step (calls, a check, a landing) was under way. */
  crashes: number;
  /** The last run was stopped in good order. */
  stopped: boolean;
  sandbox: EventData["run.started"]["sandbox"] | null;
  workspace: EventData["workspace.prepared"] | null;
  /** The project's ignored dependency folders; null before they were looked for. */
  dependencies: Given[] | null;
  /** The operator's setup: by the files it ran in. */
  setup: (EventData["setup.started"] & { finished: EventData["setup.finished"] | null }) | null;
  /** Version of the newest message for the agent. */
  input: number;
  /** A message waits for the agent to finish. */
  queued: boolean;
  /** The last reply; null before the first. */
  reply: { read: number; finish: EventData["reply.finished"]["finish"]; failure: TurnFailure | null } | null;
  /** Set while the provider is asked again after a failure. */
  retry: EventData["reply.retried"] | null;
  /** Set while the Task waits for a provider's quota, outside of any run. */
  deferred: { at: string; until: string; reason: string } | null;
  /** Since when no reply came for want of quota. */
  quotaSince: string | null;
  open: Open[];
  /** What the agents asked for calls that have not ended. */
  asks: Ask[];
  /** How many of each kind they asked so far. */
  asked: { question: number; permission: number };
  /** The project's own rules; null before they were read, or when there are none. */
  projectRules: EventData["permissions.read"] | null;
  /** Whether a call that may change files ran since the tree was last committed. */
  touched: boolean;
  /** Counts calls that may change files; in-place results hold for one value of it. */
  edits: number;
  /** The commit of the Task's tree on its base; null before the first, or while it equals the base. */
  tree: EventData["tree.committed"] | null;
  /** Results by check id, on the base tree and on the work. */
  baseline: Record<string, CheckRun>;
  results: Record<string, CheckRun & { edits: number }>;
  /** Checks that run now. */
  running: { checkID: string; on: "base" | "work" }[];
  /** Rounds of checks that went back to the agents in this attempt. */
  round: number;
  /** Rounds of conflicts with the project that went back to the agents in this attempt. */
  landingRound: number;
  /** Times that the change was moved onto other commits since an agent last worked on a conflict. */
  moves: number;
  /** Paths that were given to the agent with conflict markers in them. */
  conflicts: string[];
  /** Edits of the Task's files when they were. */
  conflictedAt: number | null;
  /** Changes that no commit can hold: to what the user has not committed. */
  left: string[];
  /** What was kept beside the result, oldest first. */
  artifacts: Artifact[];
  steps: number;
  /** Messages of the conversation so far, the request included. */
  messages: number;
  usage: Usage;
  /** When this attempt was first taken up. */
  attemptStartedAt: string | null;
  /** Working time of this attempt: of the runs that ended, and since when one runs. Time without a worker does not count. */
  time: { ms: number; since: string | null };
  /** The caps that the agent was warned of. */
  warned: { [N in EventData["budget.warned"]["name"]]?: { used: number; cap: number; at: string } };
  circle: Circle;
  landingStarted: EventData["landing.started"] | null;
  landed: EventData["landing.finished"] | null;
  /** Git's own files as a command of this attempt left them. */
  tampered: EventData["git.tampered"]["files"] | null;
  cancel: EventData["cancel.requested"] | null;
};

/** Whether the base has the user's uncommitted work in it, which must not land. */
export const hasSnapshot = ({ workspace }: TaskState): boolean =>
  workspace?.snapshot !== undefined && workspace.snapshot.head !== workspace.baseCommit;

/** The Orchestrator's session, to which its users speak. */
export const rootOf = (state: Pick<StreamState, "sessions">): string => state.sessions[0]?.sessionID ?? "";

/** The session that an open call has delegated to. */
export const delegatedBy = (state: Pick<StreamState, "sessions">, callID: string): Session | undefined =>
  state.sessions.find((session) => session.callID === callID && session.end === null);

/** The call waits for an answer as `how` says, or all that goes on in the session it has delegated to does. */
const waits = (state: StreamState, callID: string, how: (ask: Ask) => boolean): boolean => {
  if (state.asks.some((ask) => ask.callID === callID && how(ask))) return true;
  const session = delegatedBy(state, callID);
  if (session === undefined) return false;
  const inner = state.open.filter(({ sessionID }) => sessionID === session.sessionID);
  return inner.length > 0 && inner.every((call) => waits(state, call.callID, how));
};

/** Every open call waits for an answer: nobody works, whoever holds the Task. */
export const isLeft = (state: StreamState): boolean =>
  state.open.length > 0 && state.open.every(({ callID }) => waits(state, callID, (ask) => ask.answer === null));

/** The call does nothing until its ask is answered, and has done nothing since. */
export const isWaiting = (state: StreamState, callID: string): boolean => waits(state, callID, (ask) => !ask.begun);

/** What somebody may answer. */
export const openAsks = (state: Pick<StreamState, "asks">): Ask[] => state.asks.filter(({ answer }) => answer === null);

/** The result is kept on the Task's branch, not on one of the user's. */
export const staysOnBranch = (state: TaskState): boolean => state.workspace?.targetRef === null;

/** The model has read every message. */
export const isRead = (state: Pick<StreamState, "reply" | "input">): boolean =>
  state.reply !== null && state.input <= state.reply.read;

/** The agent said its last word and has nothing unread: the Task is at its checks, or waits to settle. */
export const isIdle = (state: TaskState): boolean => state.reply?.finish === "end" && isRead(state);

/**
 * Whether a result still speaks of what is there: no call has changed anything since (ignored files count too), and
 * in a worktree the tree is the one that was checked.
 */
export const isCurrent = (state: TaskState, result: CheckRun & { edits: number }): boolean =>
  result.edits === state.edits &&
  (state.workspace?.kind !== "worktree" || result.tree === (state.tree?.tree ?? state.workspace.baseTree));

/** Its tree is not the base's: there is something to land. */
export const isChanged = (state: TaskState): boolean =>
  state.workspace?.kind === "worktree" && state.tree !== null && state.tree.tree !== state.workspace.baseTree;
