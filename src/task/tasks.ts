import type { z } from "zod";
import type { Browser } from "../check/check.ts";
import type { ModelRef, SquadRef } from "../domain/agent.ts";
import type { TaskState } from "../domain/state/task.ts";
import type { Engine } from "../engine/engine.ts";
import type { Slots } from "../engine/slot.ts";
import type { Log } from "../log.ts";
import type { Limits } from "../protocol/limit.ts";
import type { TaskMission } from "../protocol/mission/status.ts";
import type {
  AnswerAccepted,
  CancelAccepted,
  CaptureAccepted,
  InterruptAccepted,
  MessageAccepted,
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
} from "../protocol/task/request.ts";
import type { Artifact, production, TaskDetail, TaskStatus, TaskSummary } from "../protocol/task/status.ts";
import type { AttachmentRef } from "../protocol/text.ts";
import type { Squads } from "../squad/squad.ts";
import type { Fence, ListQuery, Store, Write } from "../store/store.ts";
import type { Workspaces } from "../workspace/workspace.ts";

/** The port that HTTP and Missions call; types only. */

/** A finished ZIP in a temporary file; disposing removes it. */
export type ArchiveFile = AsyncDisposable & { path: string; bytes: number; filename: string };

/**
 * What the service does with Tasks; HTTP and Missions call these. Refusals reject with ServiceError and have
 * written nothing. `directory` is the caller's text, not yet checked; a Task of another project is
 * `directory_mismatch`.
 */
export interface Tasks {
  /** `origin`: dispatched by a Mission; rejects with Overtaken when that has moved on. */
  create(
    directory: string,
    body: TaskCreate,
    once?: IdempotencyKey,
    origin?: MissionDispatch,
  ): Promise<Accepted<TaskCreated>>;
  /** Of the whole project, whichever of its worktrees or subfolders the directory is. */
  list(directory: string, query: Omit<ListQuery, "project">): Promise<TaskSummary[]>;
  get(taskID: string): Promise<TaskDetail>;
  status(taskID: string): Promise<TaskStatus>;
  board(taskID: string): Promise<TaskBoard>;
  messages(taskID: string, page: { after: number; limit: number }): Promise<MessagePage>;
  diff(taskID: string, between?: CommitRange): Promise<string>;
  checkLog(taskID: string, checkID: string): Promise<Buffer>;
  artifact(taskID: string, artifactID: string): Promise<{ artifact: Artifact; bytes: Buffer }>;
  preview(directory: string, taskID: string): Promise<Preview>;
  /** A picture of what the Task has made, as an artifact; a caller who leaves ends it. */
  capture(
    directory: string,
    taskID: string,
    body: TaskCapture,
    once: IdempotencyKey | undefined,
    signal: AbortSignal,
  ): Promise<Accepted<CaptureAccepted>>;
  message(
    directory: string,
    taskID: string,
    body: TaskMessage,
    once?: IdempotencyKey,
  ): Promise<Accepted<MessageAccepted>>;
  cancel(directory: string, taskID: string, body: TaskCancel, once?: IdempotencyKey): Promise<Accepted<CancelAccepted>>;
  /** Answers what the Task waits for; of two answers the first stands, the other is refused as `ask_closed`. */
  answer(
    directory: string,
    taskID: string,
    askID: string,
    body: TaskAnswer,
    once?: IdempotencyKey,
  ): Promise<Accepted<AnswerAccepted>>;
  /** Stops one delegated session and those that work for it; the Task goes on. */
  interrupt(
    directory: string,
    taskID: string,
    sessionID: string,
    body: SessionInterrupt,
    once?: IdempotencyKey,
  ): Promise<Accepted<InterruptAccepted>>;
  update(directory: string, taskID: string, patch: TaskPatch): Promise<TaskStatus>;
  remove(directory: string, taskID: string): Promise<void>;
  archive(directory: string, taskID: string, signal: AbortSignal): Promise<ArchiveFile>;
  /** The service stops: what still works for callers is ended. */
  stop(): void;
}

export type TasksDeps = {
  store: Store;
  engine: Engine;
  workspaces: Workspaces;
  squads: Squads;
  /** The model of a new Task; refuses one that cannot be called. */
  resolveModel: (ref: string | undefined) => ModelRef;
  archive: (state: TaskState, signal: AbortSignal) => Promise<ArchiveFile>;
  /** Refuses new Tasks while the disk is nearly full. */
  checkDisk: () => Promise<void>;
  /** Where a callback goes, and how much of it everybody may see; refuses what may not be told. */
  callback: (url: string) => { url: string; shown: string };
  defaults: { squad: string; landing: "commit" | "branch" };
  limits: Limits;
  captures: CapturesDeps;
  log: Log;
  now: () => Date;
};

export type TaskCreated = {
  task_id: string;
  taskID: string;
  directory: string;
  squad: { id: string; version: string; digest: string };
};

/** A Task that a Mission dispatches: it stands in the Mission's log in the same commit, or not at all. */
export type MissionDispatch = {
  mission: TaskMission;
  production: z.infer<typeof production> | undefined;
  /** The revision that the catalog must still have: what was recommended, or reconciled. */
  expected: Pick<SquadRef, "version" | "digest"> | undefined;
  /** The model that its caller named, for a squad that brings none. */
  model: ModelRef | undefined;
  /** Files that came to the Mission, and go to this Task too. */
  attachments: readonly AttachmentRef[];
  /** What the squad is told beside the request, by the Mission. */
  handover: string | undefined;
  /** What goes into the Mission's log, at the version that it was decided at and under its claim. */
  also: (task: { taskID: string; title: string; squad: SquadRef }) => {
    append: Write["appends"][number];
    fence: Fence;
  };
};

/** The Mission's log has moved on, or another handler has it: decide again. */
export class MissionMovedOn extends Error {
  readonly reason: "version" | "fence";
  constructor(reason: "version" | "fence") {
    super(`The Mission has moved on (${reason}).`);
    this.reason = reason;
  }
}

/** The idempotency key of a request: the answer is stored in the commit of the effect. */
export type IdempotencyKey = { scope: string; key: string; bodyHash: string };

/** `replayed`: the key stood already, this is its first answer. */
export type Accepted<T> = { status: 200 | 202; body: T; replayed: boolean };

export type CapturesDeps = {
  browser: () => Browser;
  slots: Slots;
  /** Commands share this machine's network. */
  network: boolean;
};

/** Two commits of a Task. */
export type CommitRange = { from: string; to: string };
