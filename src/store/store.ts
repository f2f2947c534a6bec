import type { DomainEvent, Position, Recorded, StreamID } from "../domain/event.ts";
import type { MissionRow } from "../domain/mission/status.ts";
import type { MissionState } from "../domain/state/mission.ts";
import type { TaskState } from "../domain/state/task.ts";
import type { LiveFrame } from "../protocol/event/frame.ts";
import type { Project } from "../protocol/task/board.ts";
import type { Activity, LifecycleStatus, Priority, TaskSummary } from "../protocol/task/status.ts";
import type { BlobRef } from "../protocol/text.ts";
import type { Webhooks } from "./webhook-queue.ts";

/**
 * The log and what stands beside it. One port, two implementations (`sqlite/sqlite.ts`, `postgres/postgres.ts`), one contract suite
 * (`test/contract/store.test.ts`).
 */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** When a stream wants to run next. `rank` orders what is due, lowest first; ageing is in it (see engine/engine.ts). */
export type Due = { at: Date; rank: number };

/** The right to write as the mover of a stream, checked in the commit. */
export type Fence = { stream: StreamID; epoch: number };

export type IdempotencyRecord = {
  scope: string;
  key: string;
  bodyHash: string;
  answer: StoredAnswer;
  /** Name of a field of the answer's body that is set to the position of the write's last event. */
  positionAs?: string;
};

export type StoredAnswer = { status: number; body: Json };

/**
 * All or nothing. Data, not a callback: SQLite never holds its lock over an await. Commits that come in one tick share
 * one transaction; each is decided on top of those before it (commit/batch.ts), so that a refused one takes nothing from the
 * rest. Rejects with `store_unavailable` when the transaction could not be written: then nothing of it was kept.
 */
export type Write = {
  appends: readonly { stream: StreamID; expected: number | "any"; events: readonly DomainEvent[] }[];
  /** null = nothing to do until something else makes it due. */
  due?: readonly { stream: StreamID; due: Due | null }[];
  /** An idempotency answer, stored with the effect it belongs to. */
  once?: IdempotencyRecord;
  /** Refused with `fence` unless the claim still holds. */
  fence?: Fence;
  /** Takes the stream from its holder: raises the epoch, so that every later write of that claim is refused. */
  revoke?: readonly StreamID[];
  /** Where a new Task's own end is told to; beside the log, for its query may be a secret. */
  callbacks?: readonly { stream: StreamID; url: string }[];
};

/** Refusals are values: the caller decides again. Nothing of a refused write is kept. */
export type Committed =
  | { ok: true; recorded: Recorded[] }
  /** A stream was not at the expected version. */
  | { ok: false; reason: "version"; stream: StreamID; version: number }
  | { ok: false; reason: "fence" }
  /** Another stream has the name: a Mission of this id is in the project. */
  | { ok: false; reason: "name"; stream: StreamID }
  /** The key stands already; `stored` is its first answer. */
  | { ok: false; reason: "once"; bodyHash: string; stored: StoredAnswer };

export interface Claim extends AsyncDisposable {
  readonly stream: StreamID;
  readonly fence: Fence;
  /** Aborts as soon as the claim is known to be lost (revoked, or its lease could not be renewed in time). */
  readonly lost: AbortSignal;
  /** Gives the stream back. A stream that is still active without a due mark becomes due again after a backoff. */
  release(): Promise<void>;
}

/** Which events a reader wants. Everything absent matches. */
export type Filter = {
  stream?: StreamID;
  project?: string;
  /** A Mission's own facts, and those of its Tasks. */
  mission?: StreamID;
  types?: readonly DomainEvent["type"][];
};

export type ListQuery = {
  /** The project's identity: worktrees and subfolders of a repository share it. */
  project: string;
  status?: Activity;
  lifecycleStatus?: LifecycleStatus;
  productPillar?: "code" | "work";
  missionID?: string;
  /** Squad id. */
  promptProfile?: string;
  priority?: Priority;
  /** Case-insensitive; title, Task id or request. */
  search?: string;
  metadata?: Record<string, string>;
  /** Archived ones too. */
  archived?: boolean;
  limit: number;
  /** Exclusive: the last element of the page before. */
  cursor?: { updated: number; taskID: string };
};

export type MissionQuery = {
  /** Absent: every project's. */
  project?: string;
  /** Case-insensitive; title, Mission id or directory. */
  search?: string;
  archived?: boolean;
  limit: number;
  /** Exclusive: the last element of the page before. */
  cursor?: { updated: number; sessionID: string };
};

/** How many of a Mission's Tasks are at which end. */
export type TaskStats = Record<LifecycleStatus, number>;

export type DueStream = { stream: StreamID; due: Due /** Rises with every due mark. */; seq: number };

export type QueuePlace = { ahead: number; due: Due };

export interface Store extends AsyncDisposable {
  readonly kind: "sqlite" | "postgres";
  readonly blobs: Blobs;
  readonly live: Live;
  readonly webhooks: Webhooks;
  /** The text as it will stand in an event; see store/redacted-store.ts. */
  readonly redact: (text: string) => string;

  commit(write: Write): Promise<Committed>;

  /** undefined: somebody else moves the stream, or it does not exist. Raises the epoch. */
  claim(stream: StreamID, worker: string): Promise<Claim | undefined>;

  /** The Task's fold at its newest event; shared, never to be changed. undefined: no such stream. */
  state(stream: StreamID): Promise<TaskState | undefined>;

  /** A Mission's fold, by its session; the same way. */
  mission(stream: StreamID): Promise<MissionState | undefined>;

  /** Events of one stream in order, after a version. `last` takes the newest `limit` instead, still in order. */
  read(
    stream: StreamID,
    options?: { after?: number; limit?: number; types?: readonly DomainEvent["type"][]; last?: boolean },
  ): Promise<Recorded[]>;

  /** One page of the whole log after a position. */
  since(after: Position, limit: number, filter?: Filter): Promise<Recorded[]>;

  /** The newest position in the log; 0 when it is empty. */
  position(): Promise<Position>;

  /** Everything after a position and then what is committed from now on, no gap, nothing twice. Ends with the
   * signal, and once the stream or the Mission that it is limited to is erased. */
  follow(after: Position, signal: AbortSignal, filter?: Filter): AsyncIterable<Recorded>;

  /** Last update first, then Task id downwards. */
  list(query: ListQuery): Promise<TaskSummary[]>;

  /** Projects that have Tasks, last update first; the directory is the newest Task's. */
  projects(limit: number): Promise<Project[]>;
  /** Last update first, then session id downwards; each with the numbers of its Tasks. Two queries, whatever there is. */
  missions(query: MissionQuery): Promise<{ row: MissionRow; stats: TaskStats }[]>;
  /** The Missions of an id, one for each project, or the one of a project. */
  missionsNamed(missionID: string, project?: string): Promise<StreamID[]>;
  /** The rows of the Tasks that a Mission dispatched, oldest first. One query. */
  dispatched(mission: StreamID): Promise<TaskSummary[]>;
  /** Every production that runs in a project, whichever Mission it is of. */
  productions(project: string): Promise<TaskSummary[]>;

  /** Streams that nobody holds and whose time has come, best rank first. */
  due(now: Date, limit: number): Promise<DueStream[]>;
  /** The earliest due time of a stream that nobody holds; undefined when there is none. */
  nextDue(): Promise<Date | undefined>;
  /** Tasks that nobody holds and that have a due mark; a Mission that will look again is none. */
  waiting(): Promise<number>;
  /** How many due streams come before each of these; those that do not wait are left out. One query. */
  places(streams: readonly StreamID[]): Promise<Map<StreamID, QueuePlace>>;

  /** The stored answer of an idempotency key. */
  once(scope: string, key: string): Promise<{ bodyHash: string; stored: StoredAnswer } | undefined>;

  /**
   * Removes a stream with its events, rows and due mark (`orphans.leave` comes first); positions of others do not change. False: it stands at
   * another version than expected, and stays.
   */
  erase(stream: StreamID, expected?: number): Promise<boolean>;

  /** Blobs that erased streams named; see sql/orphan-blob.ts. */
  readonly orphans: OrphanBlobs;

  /** Forgets idempotency keys older than the date. */
  forget(before: Date): Promise<void>;

  /** Throws when the store cannot be read or written. */
  check(): Promise<void>;
}

/**
 * Long texts and files by the SHA-256 of their bytes, in the data folder. Put before the commit that names them, which
 * has to come soon: a blob that no stream names is safe for twenty minutes.
 */
export interface Blobs {
  /** `exact`: not text of people or models but what the service goes by; kept as it is. */
  put(bytes: Uint8Array, exact?: boolean): Promise<BlobRef>;
  /** undefined: not here (never put, or the folder was cleaned by hand). */
  get(sha256: string): Promise<Buffer | undefined>;
  /** For what no stream names any more. `young`: it was put a moment ago, somebody is about to name it; it stays. */
  drop(sha256: string): Promise<"dropped" | "absent" | "young">;
}

/** What may be lost: deltas of a reply and of a running command, to whoever listens now. */
export interface Live {
  /** `after`: the newest fact it follows; a reader that has not seen that yet is shown it first. */
  publish(frame: LiveFrame, after: Position): void;
  subscribe(stream: StreamID, listener: (frame: LiveFrame, after: Position) => void): Disposable;
}

export type OrphanBlobs = {
  /** Before the stream is erased. One that stays after all still names what it names: the sweep finds it. */
  leave(stream: StreamID): Promise<void>;
  find(): Promise<string[]>;
  forget(orphans: readonly string[]): Promise<void>;
};
