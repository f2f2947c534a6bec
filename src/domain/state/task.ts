import type { CheckSpec } from "../../protocol/check.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { Given } from "../../protocol/event/workspace.ts";
import type { Artifact, ErrorInfo, Goal, LifecycleStatus, Priority } from "../../protocol/task/status.ts";
import type { AttachmentRef, LongText } from "../../protocol/text.ts";
import type { SquadRef } from "../agent.ts";
import { isRead, type StreamState } from "./stream.ts";

/**
 * What is known of a Task, and the questions that are asked of it. `task/evolve.ts` makes it of events. What happens next
 * stands in `task/next.ts`, the decision on a cancel in `task/cancel.ts`, the ways to end in `task/end.ts`.
 */

export type CheckRun = EventData["check.finished"];

export type TaskState = StreamState & {
  taskID: string;
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
  ownChecks: CheckSpec[];
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
  isolation: "worktree" | "directory";
  landing: "commit" | "branch" | "none";
  archived: boolean;
  createdAt: string;
  startedAt: string | null;
  settledAt: string | null;
  lifecycle: LifecycleStatus;
  /** 1, and one more for every message that made a settled Task active again. */
  attempt: number;
  error: string | null;
  errorInfo: ErrorInfo | null;
  slices: Slice[];
  /** What the service saw of the work. */
  evidence: Evidence[];
  /** External agents' own ids of their sessions, by ours. */
  externalSessions: Record<string, string>;
  workspace: EventData["workspace.prepared"] | null;
  /** The project's ignored dependency folders; null before they were looked for. */
  dependencies: Given[] | null;
  /** The operator's setup: by the files it ran in. */
  setup: (EventData["setup.started"] & { finished: EventData["setup.finished"] | null }) | null;
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
  unlandable: string[];
  /** What was kept beside the result, oldest first. */
  artifacts: Artifact[];
  /** When this attempt was first taken up. */
  attemptStartedAt: string | null;
  landingStarted: EventData["landing.started"] | null;
  landed: EventData["landing.finished"] | null;
  /** Git's own files as a command of this attempt left them. */
  tampered: EventData["git.tampered"]["files"] | null;
  cancel: EventData["cancel.requested"] | null;
};

/** Whether the base has the user's uncommitted work in it, which must not land. */
export const hasSnapshot = ({ workspace }: TaskState): boolean =>
  workspace?.snapshot !== undefined && workspace.snapshot.head !== workspace.baseCommit;

/** The result is kept on the Task's branch, not on one of the user's. */
export const staysOnBranch = (state: TaskState): boolean => state.workspace?.targetRef === null;

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

export type Slice = {
  sliceID: string;
  weight: "blocking" | "advisory";
  contract: Goal["contract"];
  /** Nobody has planned: it is the request itself, and ends with the Task. */
  whole: boolean;
  review: (EventData["review.finished"] & { edits: number; at: string }) | null;
  settlement: Goal["settlement"];
  /** The attempt that it was accepted in. */
  acceptedIn: number | null;
};

export const isOpenSlice = ({ settlement }: Slice): boolean => settlement.state === "open";

/** Something the service saw. It speaks of the revisions that it was seen under, and of the files as they were then. */
export type Evidence = {
  id: string;
  kind: Goal["evidence"][number]["kind"];
  summary: string;
  sessionID: string | null;
  commit: string | null;
  tree: string | null;
  edits: number;
  /** Revision by slice. */
  of: Record<string, number>;
  at: string;
};

export const isActive = (state: TaskState): boolean => state.lifecycle === "active";
