import type {
  CancelAccepted,
  MessageAccepted,
  MessagePage,
  TaskBoard,
  TaskCancel,
  TaskCreate,
  TaskDetail,
  TaskMessage,
  TaskPatch,
  TaskStatus,
  TaskSummary,
} from "../protocol/task.ts";
import type { ListQuery } from "../store/store.ts";

/** The idempotency key of a request: the answer is stored in the commit of the effect. */
export type OnceKey = { scope: string; key: string; bodyHash: string };

/** `replayed`: the key stood already, this is its first answer. */
export type Accepted<T> = { status: 200 | 202; body: T; replayed: boolean };

export type TaskCreated = {
  task_id: string;
  taskID: string;
  directory: string;
  squad: { id: string; version: string; digest: string };
};

/** A finished ZIP in a temporary file; disposing removes it. */
export type ArchiveFile = AsyncDisposable & { path: string; bytes: number; filename: string };

/**
 * What the service does with Tasks; HTTP (later also Missions) calls these. Refusals reject with ServiceError and have
 * written nothing. `directory` is the caller's text, not yet checked; a Task of another project is
 * `directory_mismatch`.
 */
export interface Tasks {
  create(directory: string, body: TaskCreate, once?: OnceKey): Promise<Accepted<TaskCreated>>;
  list(query: ListQuery): Promise<TaskSummary[]>;
  get(taskID: string): Promise<TaskDetail>;
  status(taskID: string): Promise<TaskStatus>;
  board(taskID: string): Promise<TaskBoard>;
  messages(taskID: string, page: { after: number; limit: number }): Promise<MessagePage>;
  diff(taskID: string): Promise<string>;
  checkLog(taskID: string, checkID: string): Promise<Buffer>;
  message(directory: string, taskID: string, body: TaskMessage, once?: OnceKey): Promise<Accepted<MessageAccepted>>;
  cancel(directory: string, taskID: string, body: TaskCancel, once?: OnceKey): Promise<Accepted<CancelAccepted>>;
  update(directory: string, taskID: string, patch: TaskPatch): Promise<TaskStatus>;
  remove(directory: string, taskID: string): Promise<void>;
  archive(directory: string, taskID: string, signal: AbortSignal): Promise<ArchiveFile>;
}
