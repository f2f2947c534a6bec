import type { DomainEvent, Position, Recorded, StreamID } from "../domain/event.ts";
import type { MissionRow } from "../domain/mission/status.ts";
import type { MissionState } from "../domain/state/mission.ts";
import type { TaskState } from "../domain/state/task.ts";
import type { LiveFrame } from "../protocol/event/frame.ts";
import type { Overview } from "../protocol/overview.ts";
import type { Project } from "../protocol/task/board.ts";
import type { Activity, LifecycleStatus, Priority, TaskSummary } from "../protocol/task/status.ts";
import type { BlobRef } from "../protocol/text.ts";
import type { Nodes } from "./node.ts";
import type { Full, RunningBounds } from "./running.ts";
import type { Webhooks } from "./webhook-queue.ts";

/**
 * The port of the store: the append-only event log, the rows derived from it (lists, snapshots, due times, claims,
 * idempotency answers), and the blobs. Two implementations, `sqlite/sqlite.ts` and `postgres/postgres.ts`, pass one
 * contract suite, `test/store/store.test.ts`.
 *
 * Every write is one transaction. When its promise resolves, the write is on disk (unless it is `lazy`). When it
 * rejects with a `store_unavailable` ServiceError, nothing of it was kept, unless `details.outcome` is "unknown": the
 * database was lost during the commit, and could not be asked for a minute. The exceptions are `Blobs`, which have a
 * place of their own, and `Live`, which writes nothing. Reads reject with `store_unavailable`, too. A disposed store
 * refuses all writes.
 *
 * An operation that fails because of a lost connection or a lock that is not free is tried again: for ten seconds, and
 * for a minute through a claim.
 *
 * Reads that take longer the larger the log is never hold up anything else. They take a signal, which aborts when the
 * caller has gone: the read then rejects with the signal's reason, and does not begin if it has not begun yet.
 */
export interface Store extends AsyncDisposable {
  readonly kind: "sqlite" | "postgres";
  readonly blobs: Blobs;
  /** Absent where blobs stay in the data folder. */
  readonly blobMove?: BlobMove;
  readonly orphans: OrphanBlobs;
  readonly live: Live;
  readonly webhooks: Webhooks;
  /** Only where several services share the database. */
  readonly nodes?: Nodes;
  /** How many Tasks may run at the same time. Absent: as many as the nodes have room for. */
  readonly bounds?: RunningBounds;
  /** The open connections to a database's server, by purpose. Absent where the database is a file. */
  readonly connections?: () => Readonly<Record<string, number>>;

  /**
   * The text as an event would store it: without the secrets that the service knows. The implementations return it
   * unchanged; `redacted-store.ts` wraps them.
   */
  readonly redact: (text: string) => string;

  // ---- writing ------------------------------------------------------------------------------------------------------

  /** Writes all of it or nothing. A refusal is a value, see `Committed`; rejects only with `store_unavailable`. */
  commit(write: Write): Promise<Committed>;

  /**
   * Takes the right to write to a stream as its worker, and raises the stream's epoch, so that an earlier claim can no
   * longer commit. undefined: another worker holds the stream, or it does not exist. After a crash of the holder the
   * claim is free at the next start of a service, or once its lease has expired (PostgreSQL). Undefined, too, where
   * `bounds` leave no room for the Task. `urgent`: the run only ends the stream, see `Write.urgent`.
   */
  claim(stream: StreamID, worker: string, urgent?: boolean): Promise<Claim | undefined>;

  /**
   * Removes a stream with its events, rows and due time, and revokes its claim; call `orphans.markOrphans` first. The
   * positions of other events do not change. Resolves to false, and removes nothing, if the stream is not at version
   * `expected`; without `expected` any version will do. Always urgent, see `Write.urgent`.
   */
  erase(stream: StreamID, expected?: number): Promise<boolean>;

  /** Deletes the idempotency keys that were stored before the date. */
  forget(before: Date): Promise<void>;

  // ---- the log ------------------------------------------------------------------------------------------------------

  /** The Task's fold at its newest event, shared with other callers: never modify it. undefined: no such Task. */
  state(stream: StreamID): Promise<TaskState | undefined>;

  /** The fold of the Mission with this session id, likewise. undefined: no such Mission. */
  mission(stream: StreamID): Promise<MissionState | undefined>;

  /**
   * Events of one stream in ascending order: those with a version greater than `after` (default 0), of the given types,
   * at most `limit` (default: all). `last` selects the newest `limit` instead of the oldest. None for an unknown
   * stream.
   */
  read(
    stream: StreamID,
    options?: {
      after?: number;
      limit?: number;
      types?: readonly DomainEvent["type"][];
      last?: boolean;
      signal?: AbortSignal;
    },
  ): Promise<Recorded[]>;

  /**
   * At most `limit` matching events of the whole log after a position, in ascending order. Fewer where their data is
   * more than 2 MiB together or where few match, but at least one if there is any: only an empty page is the end.
   */
  since(after: Position, limit: number, filter?: Filter, signal?: AbortSignal): Promise<Recorded[]>;

  /** The newest position in the log; 0 when it is empty. */
  position(): Promise<Position>;

  /**
   * All matching events after a position, then those committed from now on: no gaps, no duplicates. Ends when the
   * signal aborts, when the store is closed, and when the stream or Mission named in the filter is erased.
   */
  follow(after: Position, signal: AbortSignal, filter?: Filter): AsyncIterable<Recorded>;

  /** The answer stored under an idempotency key. undefined: the key was never used, or is forgotten. */
  once(scope: string, key: string): Promise<{ bodyHash: string; stored: StoredAnswer } | undefined>;

  // ---- lists --------------------------------------------------------------------------------------------------------

  /** One page of a project's Tasks, last update first, then by descending Task id. */
  list(query: ListQuery, signal?: AbortSignal): Promise<TaskSummary[]>;

  /**
   * One page of the Tasks that ended and were last changed before the date, project by project, oldest first, without
   * Tasks of Missions that still exist. A page may be empty: only `next` undefined is the end. Uses an index.
   */
  aged(query: AgedQuery, signal?: AbortSignal): Promise<{ tasks: TaskSummary[]; next: AgedQuery["after"] }>;

  /**
   * Projects that have Tasks, last update first. `directory` and `repository` are those of the project's newest Task.
   */
  projects(limit: number, signal?: AbortSignal): Promise<Project[]>;

  /**
   * What is going on, in all projects or in the one with this identity: how many Tasks failed since `since`, and
   * everything else as it is now. Uses indexes: ended Tasks cost nothing.
   */
  overview(query: { since: Date; project: string | undefined }, signal?: AbortSignal): Promise<Overview>;

  /**
   * One page of Missions, last update first, then by descending session id, each with the counts of its Tasks. Two
   * queries, however many Missions there are.
   */
  missions(query: MissionQuery, signal?: AbortSignal): Promise<{ row: MissionRow; stats: TaskStats }[]>;

  /** The streams of the Missions with this id: at most one per project, or the one in `project`. */
  missionsNamed(missionID: string, project?: string): Promise<StreamID[]>;

  /** The Tasks that a Mission dispatched, oldest first. One query. */
  dispatched(mission: StreamID): Promise<TaskSummary[]>;

  /** The active Tasks of a project that produce a squad, whichever Mission dispatched them. */
  productions(project: string): Promise<TaskSummary[]>;

  // ---- the queue ----------------------------------------------------------------------------------------------------

  /**
   * At most `limit` unclaimed streams whose due time has come, lowest rank first. With `full`, leaves out Tasks for
   * which there is no room, except those that only have to be ended.
   */
  due(now: Date, limit: number, full?: Full): Promise<DueStream[]>;

  /** The Tasks on which a claim is held, and the projects of the named Tasks. */
  running(named?: readonly StreamID[]): Promise<RunningTasks>;

  /** The earliest due time of an unclaimed stream, past or future; undefined when there is none. */
  nextDue(): Promise<Date | undefined>;

  /** How many unclaimed Tasks have a due time, past or future. Missions do not count. */
  waiting(): Promise<number>;

  /**
   * For each of these streams that waits in the queue, how many streams run before it. One query, or two for more than
   * two streams.
   */
  places(streams: readonly StreamID[]): Promise<Map<StreamID, QueuePlace>>;

  // ---- health -------------------------------------------------------------------------------------------------------

  /** Rejects with an error that says why when the store cannot be read or written now. */
  check(): Promise<void>;
}

/**
 * One transaction, all or nothing. Data rather than a callback, so that SQLite never holds its lock across an await.
 * Commits of the same tick share one database transaction; each is decided on top of those before it (see
 * `batch/batch.ts`), so a refused one does not affect the others.
 */
export type Write = {
  /** `expected`: the version the stream must be at, 0 for a new one; "any" appends at whatever version it is. */
  appends: readonly { stream: StreamID; expected: number | "any"; events: readonly DomainEvent[] }[];
  /**
   * New due times. null: the stream is not due until a later write makes it so. "as-it-is": the stream keeps its due
   * time when the claim is released, because what was due then was not done.
   */
  due?: readonly { stream: StreamID; due: Due | null | "as-it-is" }[];
  /** An idempotency answer, stored together with the effect that it reports. */
  once?: IdempotencyRecord;
  /** The write is refused with reason `fence` unless this claim still holds. */
  fence?: Fence;
  /** Takes streams from their holders: raises the epoch, so that every later write through such a claim is refused. */
  revoke?: readonly StreamID[];
  /** Where to report a new Task's end. Kept outside the log, because the URL's query may hold a secret. */
  callbacks?: readonly { stream: StreamID; url: string }[];
  /**
   * The write ends or removes something, so that on a full disk it gets the space that is kept back for that
   * (`disk/reserve.ts`). Default: false.
   */
  urgent?: boolean;
  /**
   * The promise may resolve before the write is on disk: a crash of the machine may lose it, together with everything
   * later; a crash of the service does not. For writes that can be found out or done again, so that nobody has to be
   * told. Readers see the write, and later writes resolve, only once it is on disk. Default: false. Makes no difference
   * on PostgreSQL.
   */
  lazy?: boolean;
};

/** The outcome of a write. A refused one left nothing behind; the caller decides again on the current state. */
export type Committed =
  | { ok: true; recorded: Recorded[] }
  /** A stream was not at the expected version; `version` is its actual one. */
  | { ok: false; reason: "version"; stream: StreamID; version: number }
  /** The claim in `fence` no longer holds. */
  | { ok: false; reason: "fence" }
  /** The project already has a Mission with this id; `stream` is that Mission. */
  | { ok: false; reason: "name"; stream: StreamID }
  /** The idempotency key was used before; `stored` is the answer given then, `bodyHash` the hash of that request. */
  | { ok: false; reason: "once"; bodyHash: string; stored: StoredAnswer };

/** When a stream is to run next. Lower ranks run first; the rank includes ageing (see `engine/due.ts`). */
export type Due = { at: Date; rank: number };

/** Proof of a claim, checked within the commit. */
export type Fence = { stream: StreamID; epoch: number };

/** An answer to store under an idempotency key. `bodyHash` distinguishes a retry from another request. */
export type IdempotencyRecord = {
  scope: string;
  key: string;
  bodyHash: string;
  answer: StoredAnswer;
  /** Field of the answer's body to set to the position of the write's last event. The body must be an object then. */
  positionAs?: string;
};

export type StoredAnswer = { status: number; body: Json };

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** The right to write to a stream as its worker. Disposal releases it. */
export interface Claim extends AsyncDisposable {
  readonly stream: StreamID;
  readonly fence: Fence;
  /** Aborts as soon as the claim is known to be lost: it was revoked, or its lease could not be renewed in time. */
  readonly lost: AbortSignal;
  /**
   * Gives the stream back. A due time that was set since the claim stays. Otherwise an active stream becomes due again
   * after a backoff of 1 to 60 seconds, so that none is forgotten. `unfinished`: the run failed, and what the stream
   * was due for is not done. It then becomes due again even if it is not active, for example a Mission that was to hear
   * of a Task's end.
   */
  release(unfinished?: boolean): Promise<void>;
}

/** Which events a reader wants; an absent field matches all. */
export type Filter = {
  stream?: StreamID;
  /** The project's identity. */
  project?: string;
  /** A Mission's own events, and those of its Tasks. */
  mission?: StreamID;
  types?: readonly DomainEvent["type"][];
};

/** Which Tasks to list; an absent field matches all, except `archived`. */
export type ListQuery = {
  /** The project's identity, which the worktrees and subfolders of a repository share. */
  project: string;
  status?: Activity;
  lifecycleStatus?: LifecycleStatus;
  productPillar?: "code" | "work";
  missionID?: string;
  /** Squad id. */
  promptProfile?: string;
  priority?: Priority;
  /** Part of the title, Task id or request, case-insensitive. */
  search?: string;
  /** Keys and values that the Task's metadata must have. */
  metadata?: Record<string, string>;
  /** true includes archived Tasks. */
  archived?: boolean;
  limit: number;
  /** Exclusive: the last element of the previous page. `updated` in milliseconds. */
  cursor?: { updated: number; taskID: string };
};

/** `after`: `next` of the previous page; undefined: the first page. */
export type AgedQuery = {
  before: Date;
  limit: number;
  after: { project: string; updated: number; stream: StreamID } | undefined;
};

/** Which Missions to list; an absent field matches all, except `archived`. */
export type MissionQuery = {
  project?: string;
  /** Part of the title, Mission id or directory, case-insensitive. */
  search?: string;
  priority?: Priority;
  /** Keys and values that the Mission's metadata must have. */
  metadata?: Record<string, string>;
  /** true includes archived Missions. */
  archived?: boolean;
  limit: number;
  /** Exclusive: the last element of the previous page. `updated` in milliseconds. */
  cursor?: { updated: number; sessionID: string };
};

/**
 * How many of a Mission's Tasks have each lifecycle status. `asking`: how many of the active ones wait for an answer.
 */
export type TaskStats = Record<LifecycleStatus | "asking", number>;

export type DueStream = {
  stream: StreamID;
  due: Due;
  /** Increases each time the stream's due time is set, which distinguishes a new due time from an unchanged one. */
  seq: number;
};

/** Tasks with their projects, each as the SHA-256 of its identity. */
export type RunningTasks = { running: ReadonlyMap<StreamID, string>; projects: ReadonlyMap<StreamID, string> };

/** `ahead`: due streams that run before this one. */
export type QueuePlace = { ahead: number; due: Due };

/**
 * Bytes in pieces of at most about 256 KiB, which the receiver may keep. Each call gives the same bytes from their
 * beginning.
 */
export type Pieces = () => AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/**
 * A blob to be read once. Nothing is open before the first piece is requested, after the last one, or once the reader
 * stops. The pieces are `bytes` together, or reading rejects with `store_unavailable`: a blob that is dropped, or is
 * not what its name says, never looks like a shorter one.
 */
export type BlobRead = { bytes: number; pieces: AsyncIterable<Buffer> };

/**
 * Long texts and files, kept in the data folder, the database or a bucket by the SHA-256 of their bytes. Put a blob
 * before the commit that names it, and commit soon: a blob that no stream names is kept for at least twenty minutes.
 *
 * `put` and `get` are for bytes that are in memory anyway. Anything that may have more than a MiB passes in pieces
 * through `write` and `read`, and only a few of its pieces are in memory at once.
 */
export interface Blobs {
  /**
   * Stores the bytes; they are on disk when it resolves. Storing the same bytes again is cheap and restarts their
   * twenty minutes. Known secrets are redacted first, unless `exact`: data that the service itself acts on, rather than
   * text of people or models. Rejects with `store_unavailable`.
   */
  put(bytes: Uint8Array, exact?: boolean): Promise<BlobRef>;
  /**
   * Stores the pieces, like `put`. They are requested once to compute their hash, and once for each try to store them.
   * Also rejects with `store_unavailable` if reading them fails, or if they differ the second time; nothing of them is
   * kept then.
   */
  write(pieces: Pieces, exact?: boolean): Promise<BlobRef>;
  /** undefined: there is no such blob (never stored, dropped, or deleted by hand). */
  get(sha256: string): Promise<Buffer | undefined>;
  /** The same, in pieces. */
  read(sha256: string): Promise<BlobRead | undefined>;
  /**
   * Deletes a blob that no stream names. `young`: it was stored recently and is kept, since a commit may be about to
   * name it.
   */
  drop(sha256: string): Promise<"dropped" | "absent" | "young">;
}

/** The move of the blobs from the data folder to a place where other services find them, while the service runs. */
export type BlobMove = {
  place: "database" | "s3";
  /** Begins the move, if it has not begun. From then on, new blobs are put in the new place. */
  begin(): Promise<void>;
  /** How many blobs have moved since the start of the service, and whether none is left that can be moved. */
  state(): { moved: number; isOver: boolean };
  /** Resolves once none is left that can be moved. */
  over: Promise<void>;
};

/** Blobs that only erased streams named, or that were released; `blob/sweep.ts` drops them. */
export type OrphanBlobs = {
  /**
   * Notes every blob that the stream names, before the stream is erased. If the stream is not erased after all, no harm
   * is done: `find` sees that it still names them.
   */
  markOrphans(stream: StreamID): Promise<void>;
  /**
   * Notes blobs that the stream's events name and nobody asks for any more. The stream then no longer counts as naming
   * them.
   */
  release(stream: StreamID, blobs: readonly string[]): Promise<void>;
  /**
   * The noted blobs that no stream names now; the others are removed from the notes. None while it is not yet known
   * which blobs the events of an older version name (see `nameBlobs`).
   */
  find(): Promise<string[]>;
  /**
   * Finds out which blobs the events of an older version name, in short steps, until all is known or the signal aborts.
   * Returns at once if all is known.
   */
  nameBlobs(signal: AbortSignal): Promise<void>;
  /** Removes blobs from the notes, once they are dropped. */
  forget(orphans: readonly string[]): Promise<void>;
};

/**
 * Live deltas of a reply or of a running command for current subscribers, and the progress of both. Never stored, lost
 * in a crash.
 */
export interface Live {
  /** `after`: the newest event that the frame follows; a reader that has not seen that event yet gets it first. */
  publish(frame: LiveFrame, after: Position): void;
  /** The reply, call or check with this id is complete. */
  end(stream: StreamID, id: string): void;
  /** The stream has no more activity. */
  forget(stream: StreamID): void;
  /** The progress of the stream's current activity; undefined: nothing is counted. */
  now(stream: StreamID): Extract<LiveFrame, { type: "now.delta" }> | undefined;
  /** Calls the listener for every frame of the stream until the result is disposed. It must not throw or block. */
  subscribe(stream: StreamID, listener: (frame: LiveFrame, after: Position) => void): Disposable;
}
