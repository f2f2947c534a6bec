import type { z } from "zod";
import type { Browser } from "../check/check.ts";
import type { ModelRef, SquadRef } from "../domain/agent.ts";
import type { TaskState } from "../domain/state/task.ts";
import type { Engine } from "../engine/engine.ts";
import type { Slots } from "../engine/slot.ts";
import type { Log } from "../log.ts";
import type { Processes } from "../process/process.ts";
import type { CheckSpec } from "../protocol/check.ts";
import type { EventData } from "../protocol/event/event.ts";
import type { Approvable } from "../protocol/field.ts";
import type { Limits } from "../protocol/limit.ts";
import type { MissionBudget, TaskMission } from "../protocol/mission/status.ts";
import type {
  AnswerAccepted,
  CancelAccepted,
  CaptureAccepted,
  InterruptAccepted,
  MessageAccepted,
  RetryAccepted,
  TaskReverted,
} from "../protocol/task/accepted.ts";
import type { MessagePage, Preview, TaskBoard } from "../protocol/task/board.ts";
import type {
  SessionInterrupt,
  TaskAnswer,
  TaskCancel,
  TaskCapture,
  TaskCreate,
  TaskMessage,
  TaskPatch,
  TaskRetry,
  TaskRevert,
} from "../protocol/task/request.ts";
import type { Artifact, production, TaskDetail, TaskStatus, TaskSummary } from "../protocol/task/status.ts";
import type { AttachmentRef } from "../protocol/text.ts";
import type { Repositories } from "../repository/repository.ts";
import type { Squads } from "../squad/squad.ts";
import type { Disk } from "../store/disk/disk.ts";
import type { Terms } from "../store/node.ts";
import type { BlobRead, Fence, ListQuery, Store, Write } from "../store/store.ts";
import type { Workspaces } from "../workspace/workspace.ts";
import type { Environment, Setup } from "./environment.ts";

/** Whose credentials an answer came with (null: the service has no password), and from which address. */
export type Answerer = { user: string | null; address: string };

/**
 * Operations and queries on Tasks; the HTTP handlers, MCP and Missions call these.
 *
 * All methods reject with a `ServiceError` when they refuse, and have then written nothing. An unknown id is
 * `task_not_found`. Each operation is one commit: after a crash it has happened completely or not at all.
 *
 * `directory` is the caller's text, not yet checked: `directory_invalid` or `directory_not_allowed` when it cannot be
 * used, `directory_mismatch` when the Task belongs to another project.
 *
 * `once` makes an operation idempotent: the answer is stored in the commit of the effect, and a repeated request
 * resolves to it with `replayed: true`. The same key with another body is `idempotency_key_reused`.
 */
export interface Tasks {
  /**
   * Creates a Task and makes it due. Refuses with `invalid_request`, `squad_not_available`, `squad_changed`,
   * `model_not_found`, `model_not_configured`, `disk_low`, or `queue_full` when `limits.waiting` Tasks wait.
   *
   * `origin`: a Mission dispatches the Task; both logs are written in the same commit. Rejects with `MissionMovedOn`
   * when the Mission's log changed or its claim was lost. `replyTo`: an address inside the service that is notified of
   * the Task, instead of a callback.
   */
  create(
    directory: string,
    body: TaskCreate,
    once?: IdempotencyKey,
    origin?: MissionDispatch,
    replyTo?: string,
  ): Promise<Accepted<TaskCreated>>;
  /**
   * Tasks of the whole project, whichever of its worktrees or subfolders `directory` is. Queued Tasks include their
   * place in the queue.
   */
  list(directory: string, query: Omit<ListQuery, "project">, signal?: AbortSignal): Promise<TaskSummary[]>;
  /** The status with the request's full text, attachments and checks. */
  get(taskID: string): Promise<TaskDetail>;
  /** Why all Tasks are paused now, in words; undefined: they are not. */
  pauseReason(): string | undefined;
  /** What the Task is doing, its checks, slices, usage and, while queued, its place. */
  status(taskID: string): Promise<TaskStatus>;
  /** The status with slices by column, and the newest messages and events. */
  board(taskID: string): Promise<TaskBoard>;
  /**
   * Messages, oldest first: at most `limit` after the message whose `eventID` is `after` (0: from the start), fewer
   * when their texts are long. `nextAfter` is null on the last page.
   */
  messages(taskID: string, page: { after: number; limit: number }, signal?: AbortSignal): Promise<MessagePage>;
  /**
   * The change of the Task against its base, or `between` two of its commits, as a Git patch; "" while there is no
   * workspace. Rejects with `commit_not_found` for a commit that is not the Task's.
   */
  diff(taskID: string, between?: CommitRange): Promise<string>;
  /** The full output that a call gave its agent; `call_not_found` when no call with this id has ended. */
  callOutput(taskID: string, callID: string): Promise<BlobRead>;
  /**
   * The full output of a check's last run on the work, or, without one, on the base; `check_not_found` when there is
   * none.
   */
  checkLog(taskID: string, checkID: string): Promise<BlobRead>;
  /** An artifact with its content; `artifact_not_found` when the Task has none of this id or its bytes are gone. */
  artifact(taskID: string, artifactID: string): Promise<{ artifact: Artifact; content: BlobRead }>;
  /** Whether `capture` is possible now, and the captures taken so far. */
  preview(directory: string, taskID: string): Promise<Preview>;
  /**
   * Takes a screenshot of a page that the ended Task's server serves, and stores it as an artifact. Refuses with
   * `preview_not_available`, `task_active`, `rate_limited`, or `preview_failed` when the page could not be
   * photographed. Aborting `signal` ends it: nothing is stored.
   */
  capture(
    directory: string,
    taskID: string,
    body: TaskCapture,
    once: IdempotencyKey | undefined,
    signal: AbortSignal,
  ): Promise<Accepted<CaptureAccepted>>;
  /**
   * Adds an instruction. An active Task reads it before its next step; `onBusy` says whether it waits for the end of
   * the current work (`queue`), interrupts it (`interrupt`), or is refused with `task_busy` (`reject`). A Task that has
   * ended is restarted in its conversation; for a Mission's Task the restart is reserved in the Mission's log, or
   * refused with `budget_reached`. `mission`: the call of the Mission's agent that sends the message, and the Task's
   * budget and checks from now on.
   */
  message(
    directory: string,
    taskID: string,
    body: TaskMessage,
    once?: IdempotencyKey,
    mission?: { callID: string; budget?: MissionBudget; checks?: NonNullable<TaskCreate["checks"]> },
  ): Promise<Accepted<MessageAccepted>>;
  /**
   * Records what became of an ended Task's pull request, if that has changed. A forge that does not answer is not an
   * error.
   */
  refreshPullRequest(taskID: string, signal: AbortSignal): Promise<void>;
  /**
   * Cancels the Task. `mode: "stop"` (the default) ends what is under way; `"wrap_up"` lets the agent finish its step
   * and give a last summary. The answer has status 202 while a run has to complete the cancel, and 200 once the Task is
   * cancelled; cancelling again changes nothing. Refuses with `task_settled` when the Task has completed or failed, or
   * is landing; waits up to five seconds for the landing, so that the refusal can name its end. `by`: the Mission's
   * agent cancels the Task, not a person.
   */
  cancel(
    directory: string,
    taskID: string,
    body: TaskCancel,
    once?: IdempotencyKey,
    by?: "mission",
  ): Promise<Accepted<CancelAccepted>>;
  /**
   * Answers an open ask. When two answers race, the first one counts and the other is refused with `ask_closed`; the
   * wrong kind of answer is `invalid_request`. `from`: who answers, recorded with an approval. A person's answer to a
   * Mission's Task is repeated to the Mission.
   */
  answer(
    directory: string,
    taskID: string,
    askID: string,
    body: TaskAnswer,
    once: IdempotencyKey | undefined,
    from: Answerer | "mission",
  ): Promise<Accepted<AnswerAccepted>>;
  /** Passes an ask of a Task on from its Mission to a person; does nothing when the ask is closed, or the Task gone. */
  passAskToPerson(taskID: string, askID: string): Promise<void>;
  /**
   * Stops one delegated session and those it has delegated to; the Task continues. Refuses with `session_not_found`,
   * with `session_ended`, and with `invalid_request` for the Orchestrator's session.
   */
  interrupt(
    directory: string,
    taskID: string,
    sessionID: string,
    body: SessionInterrupt,
    once?: IdempotencyKey,
  ): Promise<Accepted<InterruptAccepted>>;
  /**
   * Begins the next attempt of an ended Task: the same request in a new conversation, on the files as the project has
   * them now; the agent is told on which branch the attempt before left its work. Refuses with `task_active`.
   */
  retry(directory: string, taskID: string, body: TaskRetry, once?: IdempotencyKey): Promise<Accepted<RetryAccepted>>;
  /**
   * Creates a Task that takes back what an ended Task landed, as `git revert` does: no model is asked, and checks and
   * landing are those of every Task. Refuses with `not_revertible` when the revert does not apply cleanly onto the
   * project's branch as it is now, or the branch does not contain the commits; like `create`, with `disk_low` and
   * `queue_full`.
   */
  revert(
    directory: string,
    taskID: string,
    body: TaskRevert,
    once: IdempotencyKey | undefined,
    signal: AbortSignal,
  ): Promise<Accepted<TaskReverted>>;
  /**
   * Changes title, priority, budget, or whether the Task is archived; absent fields stay. Resolves to the new status.
   */
  update(directory: string, taskID: string, patch: TaskPatch): Promise<TaskStatus>;
  /**
   * Deletes an ended Task: log, worktree, branch; `task_active` otherwise. Once the log is gone the Task is gone; a
   * worktree that a crash left is removed later (`workspace/retention.ts`).
   */
  remove(directory: string, taskID: string): Promise<void>;
  /**
   * Deletes the Task as `remove` does, if it has ended and has not changed since `before`. Resolves to whether it did.
   */
  expire(taskID: string, before: Date): Promise<boolean>;
  /**
   * Builds the Task's project archive; dispose the result to remove the file. Refuses with `not_a_git_worktree`, and
   * with `rate_limited` when `limits.archives` are open.
   */
  archive(directory: string, taskID: string, signal: AbortSignal): Promise<ArchiveFile>;
  /** Call it when the service stops: ends captures that are under way. */
  stop(): void;
}

/** The answer to an operation. `replayed`: the key was used before, and this is its first answer. */
export type Accepted<T> = { status: 200 | 202; body: T; replayed: boolean };

/**
 * A request's idempotency key. The answer is stored in the commit of the effect. `bodyHash`: hash of the request's
 * body. `earlier`: the scope that an earlier version stored the same key under.
 */
export type IdempotencyKey = { scope: string; earlier?: string; key: string; bodyHash: string };

/** The answer to `create`. `task_id` repeats `taskID`. */
export type TaskCreated = {
  task_id: string;
  taskID: string;
  directory: string;
  squad: { id: string; version: string; digest: string };
  isolation: "worktree" | "directory";
  landing: "commit" | "branch" | "pull-request" | "none";
};

/** Two commits of one Task, as its `tree.committed` events have them. */
export type CommitRange = { from: string; to: string };

/** A finished ZIP in a temporary file; disposing removes the file. `bytes`: its size. `filename`: the name to offer. */
export type ArchiveFile = AsyncDisposable & { path: string; bytes: number; filename: string };

/** A Task that a Mission dispatches. The Mission's log records it in the same commit. */
export type MissionDispatch = {
  mission: TaskMission;
  production: z.infer<typeof production> | undefined;
  /** What the Task must ask a person's approval for. */
  approve: readonly Approvable[];
  /** The squad revision that the catalog must still have; `squad_changed` otherwise. undefined: any. */
  expected: Pick<SquadRef, "version" | "digest"> | undefined;
  /** The model that the Mission's caller named, for a squad that names none. */
  model: ModelRef | undefined;
  /** The model that the Mission's caller named for reviews, for a reviewer that names none. */
  reviewModel?: ModelRef | undefined;
  /** Files that were sent to the Mission and are passed on to this Task. */
  attachments: readonly AttachmentRef[];
  /** A message from the Mission to the squad, in addition to the request. */
  handover: string | undefined;
  phase?: TaskState["phase"] | undefined;
  /** The branch on which the Task begins and lands, whatever is checked out. */
  onto?: string | undefined;
  /** The directory in which its squad is looked up, with the files of `onto`; undefined: the Task's own directory. */
  catalog?: string | undefined;
  /** The Task is not a phase: the service carries out this merge, with these checks. */
  merge?: { of: NonNullable<EventData["task.created"]["mergeOf"]>; checks: readonly CheckSpec[] };
  /** The Task is not a phase: it judges the whole Mission, and lands nothing. */
  judges?: boolean;
  /** The events for the Mission's log, with the version they were decided at and the Mission's claim. */
  also: (task: { taskID: string; title: string; squad: SquadRef }) => {
    append: Write["appends"][number];
    /** undefined: a person asked for it, so there is no claim. */
    fence: Fence | undefined;
  };
};

/** The Mission's log changed (`version`) or another worker has its claim (`fence`); nothing was written. */
export class MissionMovedOn extends Error {
  readonly reason: "version" | "fence";
  constructor(reason: "version" | "fence") {
    super(`The Mission has moved on (${reason}).`);
    this.reason = reason;
  }
}

/** What `createTasks` (`service.ts`) needs to implement the port. */
export type TasksDeps = {
  store: Store;
  engine: Engine;
  workspaces: Workspaces;
  /** Inspects the project of a caller's directory, which another node may have. */
  inspect: Workspaces["inspect"];
  /** Inspects the project of a new Task; rejects when no node can run it. */
  inspectNew: Workspaces["inspect"];
  repositories: Repositories;
  squads: Squads;
  /** The model of a new Task: the one named, or the default. Throws when it cannot be called. */
  resolveModel: (ref: string | undefined) => ModelRef;
  archive: (state: TaskState, signal: AbortSignal) => Promise<ArchiveFile>;
  disk: Pick<Disk, "admit" | "shortage" | "giveUp" | "look">;
  /**
   * Where a callback is sent, and the part of the address that may be shown. Throws for an address that must not be
   * called.
   */
  callback: (url: string) => { url: string; shown: string };
  defaults: { squad: string; landing: "commit" | "branch" };
  limits: Limits;
  /** The terms that a node must meet to take a new Task up; absent when there are no other nodes. */
  terms?: (browser: boolean) => Terms;
  captures: CapturesDeps;
  log: Log;
  now: () => Date;
};

/** The parts of the service that captures need. */
export type CapturesDeps = {
  browser: () => Browser;
  slots: Slots;
  /** Whether commands share this machine's network, and what else separates them from it. */
  network: boolean;
  tier: 1 | 2 | 3;
  /**
   * The environment of an ended Task's commands, and the setup of new files; undefined: none. Rejects with
   * `EnvironmentLost`.
   */
  environment: (
    state: TaskState,
  ) => Promise<{ environment: Environment; setup: Setup | undefined; limits: Partial<Limits> } | undefined>;
  processes: Pick<Processes, "setEnvironment">;
};
