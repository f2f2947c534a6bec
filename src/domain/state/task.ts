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

/** Files that another node could go on from. `version`: what came up to it is in there. */
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
  /** The project by its address; null: it was named by its directory. */
  repository: { url: string; ref: string | null } | null;
  /** Where its directory's clone comes from, and its result goes; null: it stays in the directory. */
  remote: { url: string; ref: string | null } | null;
  project: string;
  /** Of reviewers whose squad names none; null: the Task's own. */
  reviewModel: ModelRef | null;
  checks: CheckSpec[];
  /** The request said that no checks are to run. */
  unchecked: boolean;
  /** Checks detected in the project, for a request without any; what passes on the base must pass at the end. */
  ownChecks: CheckSpec[];
  attachments: AttachmentRef[];
  metadata: EventData["task.created"]["metadata"];
  /** In the place of the service's. */
  limits: OwnLimits;
  squad: SquadRef;
  /** The Mission that dispatched it, and for which phase; null: it belongs to no Mission. */
  mission: NonNullable<EventData["task.created"]["mission"]> | null;
  /** The phase that it delivers, as the Mission's plan had it; null: none, or the Task is older than this. */
  phase: NonNullable<EventData["task.created"]["phase"]> | null;
  /** Set for a Task that produces a squad: its package is all that it lands. */
  production: NonNullable<EventData["task.created"]["production"]> | null;
  /** Where its end and its asks are reported, without the query. */
  callbackURL: string | null;
  staged: EventData["squad.staged"] | null;
  /** Digest of the package whose installation was begun. */
  installing: string | null;
  installed: EventData["squad.installed"] | null;
  /** Of reasoning, as requested; null: the agents' or the operator's holds. */
  effort: Effort | null;
  /** What a person is asked before it happens. */
  approve: Approvable[];
  /** What was approved last, by what would happen; null: nothing is. `plan`: the slices, of a plan. */
  approved: Record<Approvable, { askID: string; subject: string; tree: string | null; plan: string | null } | null>;
  /** An approval was denied without a word; null: none was. */
  refusal: { of: Approvable; by: string } | null;
  isolation: "worktree" | "directory";
  landing: "commit" | "branch" | "pull-request" | "none";
  /** Its run has had no other beside it, and has not advanced since. */
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
   * The agent's last whole report of its work, and what of the service's its next words answer, if they may be no
   * report.
   */
  summary: LongText | null;
  answers: "review" | "output" | "landing" | null;
  /**
   * The JSON that its caller wants; null: none. `writes`: when it was given; `refused`: how often there was none that
   * meets the schema in this attempt, last for this reason.
   */
  output: { schema: LongText; value: LongText | null; writes: number; refused: number; reason: string | null } | null;
  slices: Slice[];
  /** What the service observed of the work. */
  evidence: Evidence[];
  /** The ids that external agents gave their sessions, by our session ids. */
  externalSessions: Record<string, string>;
  workspace: EventData["workspace.prepared"] | null;
  /** The newest commit of its files that another node could go on from, and the one before. */
  checkpoint: (Checkpoint & { before: Checkpoint | null }) | null;
  /** Its files are on a node that is gone, until they are made again on this one. */
  moved: EventData["workspace.moved"] | null;
  /** After a retry, until its files are there: the attempt whose files and branch have to make way; null: none. */
  earlier: number | null;
  /**
   * The Task that it takes back; null: it is no revert. `read`: messages up to this version are the service's to carry
   * out; `tried`: it has, or could not.
   */
  revertOf: (NonNullable<EventData["task.created"]["revertOf"]> & { read: number; tried: boolean }) | null;
  /** The branch on which it begins and lands, whatever the project has checked out; null: the one checked out. */
  onto: string | null;
  /** It judges the whole of its Mission: it lands nothing, whatever it wrote. */
  judges: boolean;
  /** The branch of its Mission that it merges; null: it is no merge. `read`, `tried`: as with a revert. */
  mergeOf: (NonNullable<EventData["task.created"]["mergeOf"]> & { read: number; tried: boolean }) | null;
  /** The project's ignored dependency folders; null before they were searched. */
  dependencies: Given[] | null;
  /** What the project's own file asks for; null: it was not read, or there is none. */
  projectServers: Pick<EventData["mcp.asked"], "digest" | "granted" | "names" | "servers"> | null;
  /** What the project's commands get besides the files; null: nothing, or it was not asked. */
  environment: Pick<EventData["environment.given"], "from" | "digest" | "granted" | "settings"> | null;
  /** What MCP servers have for agents, by server. */
  mcp: Record<string, { tools: LongText; problem: string | null }>;
  /** The operator's setup, for the files that it ran in. */
  setup: (EventData["setup.started"] & { finished: EventData["setup.finished"] | null }) | null;
  /** The project's own permission rules; null before they were read, or if there are none. */
  projectRules: EventData["permissions.read"] | null;
  /** Whether a call that may change files ran since the tree was last committed. */
  touched: boolean;
  /** Counts calls that may change files. A result in place is valid for one value of it. */
  edits: number;
  /** Counts those that surely did: edits, and what a delegated agent brought in. */
  writes: number;
  /** The files in place as a call left them, where somebody looked; null: nobody did. */
  left: (Seen & { tree: string }) | null;
  /** The commit of the Task's tree on its base; null before the first one, or while it equals the base. */
  tree: EventData["tree.committed"] | null;
  /** What the model said of the change, asked for at this value of `edits`; null: it was not asked in this attempt. */
  described: { said: { title: string; body: string } | null; edits: number } | null;
  /** Why the newest commit of the Task's tree must not land. */
  denied: EventData["change.denied"] | null;
  /** Results by check id: on the base tree, and on the work. */
  baseline: Record<string, CheckRun>;
  results: Record<string, CheckRun & Seen>;
  /** Whether the changed tests are to run on the base, too. */
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
  /** Paths that the agent got with conflict markers in them. */
  conflicts: string[];
  /** Value of `edits` when it got them. */
  conflictedAt: number | null;
  /** Changes that cannot be committed, because they are to files that the user has not committed. */
  unlandable: string[];
  /** Artifacts kept besides the result, oldest first. */
  artifacts: Artifact[];
  /** When a worker first ran this attempt. */
  attemptStartedAt: string | null;
  landingStarted: EventData["landing.started"] | null;
  landed: EventData["landing.finished"] | null;
  /** What the remote of its repository has of this Task. */
  pushed: { ref: string; commit: string } | null;
  /**
   * The pull request of what landed, as the forge had it last, the commit that it was brought up to date with, and in
   * which attempt.
   */
  pullRequest: (EventData["landing.proposed"] & { seenIn: number }) | null;
  /** Everything that landed, attempt by attempt. `version`: of its event. */
  landings: Landed[];
  /** The Orchestrator's system prompt, as its first request had it. */
  system: BlobRef | null;
  /** Git's own files that a command of this attempt changed. */
  tampered: EventData["git.tampered"]["files"] | null;
  cancel: EventData["cancel.requested"] | null;
  /** A command or check of this attempt ended red. */
  seenRed: boolean;
  /** Why its agent gave it up in this attempt, and has been told nothing since. */
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

/** Where its result is pushed; null: it lands on this machine. */
export const remoteOf = ({ repository, remote }: Pick<TaskState, "repository" | "remote">): TaskState["remote"] =>
  repository ?? remote;

/** The result stays on the Task's branch instead of landing on one of the user's. */
export const staysOnBranch = (state: TaskState): boolean => state.workspace?.targetRef === null;

/** A revert or merge to which nobody has said anything: no model is asked for any of it. */
export const isByService = ({ revertOf, mergeOf, reply, input }: TaskState): boolean => {
  const own = revertOf ?? mergeOf;
  return own !== null && reply === null && input <= own.read;
};

/** The agent gave its final reply and has nothing unread: the Task is being checked, or about to settle. */
export const isIdle = (state: TaskState): boolean =>
  isByService(state) || (state.reply?.finish === "end" && isRead(state));

/** There is a message that no reply has read, and that is an agent's to read. */
export const isUnanswered = (state: TaskState): boolean => !isByService(state) && !isRead(state);

/**
 * Whether a result still applies. In a worktree a check sees a checkout of the commit and nothing else, so the tree
 * tells, whatever was called; in place no call may have changed files since, and ignored files count too.
 */
export const isCurrent = (state: TaskState, result: CheckRun & Seen): boolean =>
  state.workspace?.kind === "worktree"
    ? !state.touched && result.tree === (state.tree?.tree ?? state.workspace.baseTree)
    : result.edits === state.edits;

/**
 * Whether something was seen on the files as they are, as far as is known: by the tree, whatever was called in between.
 * Between commits the newest observation says which tree that is. Where nobody has looked since, only calls that surely
 * changed files count; in place, where no commit will tell, every call that may have. There the files are looked at
 * after each such call, once there is evidence; without Git nothing can tell what they are.
 */
export const isOfPresentFiles = (state: TaskState, seen: Seen): boolean => {
  const inPlace = state.workspace?.kind !== "worktree";
  const tree = presentTree(state);
  if (tree !== null && seen.tree !== null) return seen.tree === tree;
  return tree === null && !inPlace ? seen.writes === state.writes : isOfSameCalls(state, seen);
};

const isOfSameCalls = (state: TaskState, { edits, writes }: Seen): boolean =>
  edits === state.edits && writes === state.writes;

/** The tree of the files as they are; null: not known. */
export const presentTree = (state: TaskState): string | null => {
  const { workspace, touched, tree, left } = state;
  if (workspace?.kind === "worktree" && !touched) return tree?.tree ?? workspace.baseTree;
  const seen = state.evidence.findLast((other) => other.tree !== null && isOfSameCalls(state, other));
  return seen?.tree ?? (left !== null && isOfSameCalls(state, left) ? left.tree : null);
};

/** Its tree differs from the base's: there is something to land. */
export const isChanged = (state: TaskState): boolean =>
  state.workspace?.kind === "worktree" && state.tree !== null && state.tree.tree !== state.workspace.baseTree;

export type Slice = {
  sliceID: string;
  weight: "blocking" | "advisory";
  contract: Goal["contract"];
  /** It was not planned: it is the request itself, and ends with the Task. */
  whole: boolean;
  review: (EventData["review.finished"] & { edits: number; round: number; at: string }) | null;
  settlement: Goal["settlement"];
  /** Ids of the evidence that was current when it was accepted: that stays so, and nothing is added. */
  proofs: string[];
  /** The attempt in which it was accepted. */
  acceptedIn: number | null;
};

export const isOpenSlice = ({ settlement }: Slice): boolean => settlement.state === "open";

/** On which files something was seen. `tree`: null where nobody looked. */
export type Seen = { tree: string | null; edits: number; writes: number };

/** Something the service observed. It applies to the contract revisions and the files at that time. */
export type Evidence = Seen & {
  id: string;
  kind: Goal["evidence"][number]["kind"];
  summary: string;
  sessionID: string | null;
  commit: string | null;
  /** The last lines of its output; null where there is none. */
  lastLines: string | null;
  /** Of the kind contrast. */
  contrast: Goal["evidence"][number]["contrast"];
  /** Contract revision by slice id. */
  of: Record<string, number>;
  at: string;
};

export const isActive = (state: TaskState): boolean => state.lifecycle === "active";
