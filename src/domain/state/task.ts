import type { CheckSpec } from "../../protocol/check.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { Approvable, Effort, OwnLimits } from "../../protocol/field.ts";
import type { Given } from "../../protocol/event/workspace.ts";
import type { Artifact, ErrorInfo, Goal, LifecycleStatus, Priority } from "../../protocol/task/status.ts";
import type { AttachmentRef, BlobRef, LongText } from "../../protocol/text.ts";
import type { ModelRef, SquadRef } from "../agent.ts";
import { isRead, type StreamState } from "./stream.ts";

/**
 * The state of a Task and simple predicates on it. `task/evolve.ts` folds it from events, `task/next/next.ts` decides
 * the next step, `task/cancel.ts` decides on a cancel request, and `task/end.ts` has the ways to end.
 */

export type CheckRun = EventData["check.finished"];

/** Files from which another node can continue. `version`: they contain the effects of all events up to this version. */
export type Checkpoint = EventData["checkpoint.kept"] & { version: number };

export type TaskState = StreamState & {
  taskID: string;
  title: string;
  titleBy: "caller" | "service";
  request: LongText;
  productPillar: "code" | "work";
  priority: Priority;
  source: string;
  directory: string;
  /** The project's address; null: the project was named by its directory. */
  repository: { url: string; ref: string | null } | null;
  /**
   * The remote that the directory's clone comes from and the result is pushed to; null: the result stays in the
   * directory.
   */
  remote: { url: string; ref: string | null } | null;
  project: string;
  /** The model of reviewers for whom the squad names none; null: the Task's own model. */
  reviewModel: ModelRef | null;
  checks: CheckSpec[];
  /** The request asked for no checks. */
  unchecked: boolean;
  /**
   * Checks detected in the project, for a request that names none. Those that pass on the base must pass at the end.
   */
  ownChecks: CheckSpec[];
  attachments: AttachmentRef[];
  metadata: EventData["task.created"]["metadata"];
  /** Limits that replace the service's. */
  limits: OwnLimits;
  squad: SquadRef;
  /** The Mission that dispatched the Task, and for which phase; null: the Task belongs to no Mission. */
  mission: NonNullable<EventData["task.created"]["mission"]> | null;
  /**
   * The phase that the Task delivers, as it was in the Mission's plan; null: none, or the Task is older than this
   * field.
   */
  phase: NonNullable<EventData["task.created"]["phase"]> | null;
  /** Set for a Task that produces a squad: it lands the squad's package and nothing else. */
  production: NonNullable<EventData["task.created"]["production"]> | null;
  /** The address that its end and its asks are reported to, without the query. */
  callbackURL: string | null;
  staged: EventData["squad.staged"] | null;
  /** The digest of the package whose installation has begun. */
  installing: string | null;
  installed: EventData["squad.installed"] | null;
  /** The reasoning effort that was requested; null: the agent's or the operator's setting applies. */
  effort: Effort | null;
  /** What needs a person's approval before it happens. */
  approve: Approvable[];
  /** The newest approval of each kind; null: not approved. `plan`: the approved slices, for a plan. */
  approved: Record<Approvable, { askID: string; subject: string; tree: string | null; plan: string | null } | null>;
  /** An approval that was denied without words; null: none was. */
  refusal: { of: Approvable; by: string } | null;
  isolation: "worktree" | "directory";
  landing: "commit" | "branch" | "pull-request" | "none";
  /** Its run was the only one of the service, and the Task has not advanced since. */
  alone: boolean;
  archived: boolean;
  createdAt: string;
  startedAt: string | null;
  settledAt: string | null;
  lifecycle: LifecycleStatus;
  /** 1, plus one for every message that made a settled Task active again. */
  attempt: number;
  error: string | null;
  errorInfo: ErrorInfo | null;
  /**
   * The agent's last full report of its work. `answers`: which message of the service the agent's next words answer, if
   * they may be no report.
   */
  summary: LongText | null;
  answers: "review" | "output" | "landing" | null;
  /**
   * The JSON that the caller requires; null: none. `writes`: the value of `writes` when it was given. `refused`: how
   * often in this attempt there was none that matches the schema; `reason`: why, the last time.
   */
  output: { schema: LongText; value: LongText | null; writes: number; refused: number; reason: string | null } | null;
  slices: Slice[];
  /** What the service observed about the work. */
  evidence: Evidence[];
  /** The ids that external agents gave their sessions, by our session ids. */
  externalSessions: Record<string, string>;
  workspace: EventData["workspace.prepared"] | null;
  /** The newest checkpoint of the files, from which another node can continue, and the one before. */
  checkpoint: (Checkpoint & { before: Checkpoint | null }) | null;
  /** Set while the Task's files are still to be restored here, because the node that had them is gone. */
  moved: EventData["workspace.moved"] | null;
  /**
   * After a retry, until the new files are there: the attempt whose files and branch must be moved aside; null: none.
   */
  earlier: number | null;
  /**
   * The Task that this one reverts; null: this is no revert. `read`: the service itself carries out the messages up to
   * this version. `tried`: the service has reverted, or found that it cannot.
   */
  revertOf: (NonNullable<EventData["task.created"]["revertOf"]> & { read: number; tried: boolean }) | null;
  /**
   * The branch on which the Task begins and lands, whatever the project has checked out; null: the branch checked out.
   */
  onto: string | null;
  /** The Task judges its Mission as a whole: it lands nothing, whatever it wrote. */
  judges: boolean;
  /** The branch of its Mission that this Task merges; null: this is no merge. `read`, `tried`: as in `revertOf`. */
  mergeOf: (NonNullable<EventData["task.created"]["mergeOf"]> & { read: number; tried: boolean }) | null;
  /** The project's ignored dependency folders; null: not searched yet. */
  dependencies: Given[] | null;
  /** The MCP servers that the project's own file asks for; null: it was not read, or there is none. */
  projectServers: Pick<EventData["mcp.asked"], "digest" | "granted" | "names" | "servers"> | null;
  /** The environment that the project's commands get besides the files; null: none, or not determined yet. */
  environment: Pick<EventData["environment.given"], "from" | "digest" | "granted" | "settings"> | null;
  /** The tools of MCP servers, by server name. */
  mcp: Record<string, { tools: LongText; problem: string | null }>;
  /** The operator's setup, and the files that it ran in. */
  setup: (EventData["setup.started"] & { finished: EventData["setup.finished"] | null }) | null;
  /** The project's own permission rules; null: not read yet, or there are none. */
  projectRules: EventData["permissions.read"] | null;
  /** Whether a call that may change files ran since the tree was last committed. */
  touched: boolean;
  /** The number of calls that may have changed files. A result in place is valid for one value of it. */
  edits: number;
  /** The number of changes that are certain: edits, and what a delegated agent brought in. */
  writes: number;
  /** The tree of the files in place after a call, where the service looked at them; null: it did not. */
  left: (Seen & { tree: string }) | null;
  /** The commit of the Task's tree on its base; null: not committed yet, or equal to the base. */
  tree: EventData["tree.committed"] | null;
  /** The model's description of the change, requested at this value of `edits`; null: not requested in this attempt. */
  described: { said: { title: string; body: string } | null; edits: number } | null;
  /** Why the newest commit of the Task's tree must not land; null: it may. */
  denied: EventData["change.denied"] | null;
  /** Results by check id: on the base tree, and on the work. */
  baseline: Record<string, CheckRun>;
  results: Record<string, CheckRun & Seen>;
  /** Whether the changed tests are also to run on the base. */
  wantsContrast: boolean;
  /** The newest proof by contrast; `tree` follows the change to another base. */
  contrast: EventData["contrast.finished"] | null;
  /** Whether the agent was told in this attempt that its tests show no difference. */
  contrastTold: boolean;
  /** Checks that are running now. */
  running: { checkID: string; on: "base" | "work" }[];
  /** How often failed checks or reviews went back to the agents in this attempt. */
  round: number;
  /** How often conflicts with the project went back to the agents in this attempt. */
  landingRound: number;
  /** How often the change was rebased, or its landing planned anew, since an agent last worked on a conflict. */
  moves: number;
  /** Paths that were returned to the agent with conflict markers. */
  conflicts: string[];
  /** The value of `edits` when the conflicts were returned. */
  conflictedAt: number | null;
  /** Changes that cannot be committed, because they affect only lines that the user has not committed. */
  unlandable: string[];
  /** Artifacts kept besides the result, oldest first. */
  artifacts: Artifact[];
  /** When a worker first ran this attempt. */
  attemptStartedAt: string | null;
  landingStarted: EventData["landing.started"] | null;
  landed: EventData["landing.finished"] | null;
  /** The branch and the commit that the remote has of this Task; null: nothing was pushed. */
  pushed: { ref: string; commit: string } | null;
  /**
   * The pull request of the landed work as the forge last reported it, with the commit that it was updated to.
   * `seenIn`: the attempt in which the forge was last asked.
   */
  pullRequest: (EventData["landing.proposed"] & { seenIn: number }) | null;
  /** Everything that landed, attempt by attempt. `version`: of the event. */
  landings: Landed[];
  /** The Orchestrator's system prompt, as sent with its first request. */
  system: BlobRef | null;
  /** Git's own files that a command of this attempt changed. */
  tampered: EventData["git.tampered"]["files"] | null;
  cancel: EventData["cancel.requested"] | null;
  /** A command or check of this attempt failed. */
  seenRed: boolean;
  /** Why the agent gave up in this attempt; null: it did not, or has received a message since. */
  abandoned: Pick<EventData["task.abandoned"], "why" | "tried"> | null;
};

export type Landed = Pick<EventData["landing.finished"], "commit" | "tree" | "ref"> & {
  diffStat: { files: number; insertions: number; deletions: number } | null;
  at: string;
  version: number;
};

/** Whether the base contains uncommitted work of the user, which must not land. */
export const hasSnapshot = ({ workspace }: TaskState): boolean =>
  workspace?.snapshot !== undefined && workspace.snapshot.head !== workspace.baseCommit;

/** The remote that the result is pushed to; null: it lands on this machine. */
export const remoteOf = ({ repository, remote }: Pick<TaskState, "repository" | "remote">): TaskState["remote"] =>
  repository ?? remote;

/** Whether the result stays on the Task's branch instead of landing on one of the user's. */
export const staysOnBranch = (state: TaskState): boolean => state.workspace?.targetRef === null;

/** Whether this is a revert or merge to which nobody has written: it needs no model. */
export const isByService = ({ revertOf, mergeOf, reply, input }: TaskState): boolean => {
  const own = revertOf ?? mergeOf;
  return own !== null && reply === null && input <= own.read;
};

/** The agent gave its final reply and has nothing unread: the Task is being checked, or about to settle. */
export const isIdle = (state: TaskState): boolean =>
  isByService(state) || (state.reply?.finish === "end" && isRead(state));

/** Whether there is a message for an agent that no reply has read. */
export const isUnanswered = (state: TaskState): boolean => !isByService(state) && !isRead(state);

/**
 * Whether a result still applies. In a worktree a check sees only a checkout of the commit, so the tree decides,
 * whatever was called since. In place, no call may have changed files since; ignored files count, too.
 */
export const isCurrent = (state: TaskState, result: CheckRun & Seen): boolean =>
  state.workspace?.kind === "worktree"
    ? !state.touched && result.tree === (state.tree?.tree ?? state.workspace.baseTree)
    : result.edits === state.edits;

/**
 * Whether an observation was made on the present files, as far as is known: the trees are compared, whatever was called
 * in between. Between commits, the newest observation tells which tree is present. Without a newer observation, only
 * calls that certainly changed files count; in place, where no commit will tell, every call that may have changed them.
 * There the service looks at the files after each such call, once there is evidence; without Git, nothing can tell
 * which tree they are.
 */
export const isOfPresentFiles = (state: TaskState, seen: Seen): boolean => {
  const inPlace = state.workspace?.kind !== "worktree";
  const tree = presentTree(state);
  if (tree !== null && seen.tree !== null) return seen.tree === tree;
  return tree === null && !inPlace ? seen.writes === state.writes : isOfSameCalls(state, seen);
};

const isOfSameCalls = (state: TaskState, { edits, writes }: Seen): boolean =>
  edits === state.edits && writes === state.writes;

/** The tree of the present files; null: not known. */
export const presentTree = (state: TaskState): string | null => {
  const { workspace, touched, tree, left } = state;
  if (workspace?.kind === "worktree" && !touched) return tree?.tree ?? workspace.baseTree;
  const seen = state.evidence.findLast((other) => other.tree !== null && isOfSameCalls(state, other));
  return seen?.tree ?? (left !== null && isOfSameCalls(state, left) ? left.tree : null);
};

/** Whether the tree differs from the base's, so that there is something to land. */
export const isChanged = (state: TaskState): boolean =>
  state.workspace?.kind === "worktree" && state.tree !== null && state.tree.tree !== state.workspace.baseTree;

export type Slice = {
  sliceID: string;
  weight: "blocking" | "advisory";
  contract: Goal["contract"];
  /** The slice is the request itself: nobody planned it, and it ends with the Task. */
  whole: boolean;
  review: (EventData["review.finished"] & { edits: number; round: number; at: string }) | null;
  settlement: Goal["settlement"];
  /** Ids of the evidence that was current when the slice was accepted; fixed from then on. */
  proofs: string[];
  /** The attempt in which it was accepted. */
  acceptedIn: number | null;
};

export const isOpenSlice = ({ settlement }: Slice): boolean => settlement.state === "open";

/** Identifies the files on which something was observed. `tree`: null where the service did not look. */
export type Seen = { tree: string | null; edits: number; writes: number };

/** An observation by the service. It applies to the contract revisions and the files of that time. */
export type Evidence = Seen & {
  id: string;
  kind: Goal["evidence"][number]["kind"];
  summary: string;
  sessionID: string | null;
  commit: string | null;
  /** The last lines of its output; null where there is none. */
  lastLines: string | null;
  /** Set for evidence of the kind `contrast`. */
  contrast: Goal["evidence"][number]["contrast"];
  /** The contract revision of each slice, by slice id. */
  of: Record<string, number>;
  at: string;
};

export const isActive = (state: TaskState): boolean => state.lifecycle === "active";
