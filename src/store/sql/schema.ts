import type { LifecycleStatus } from "../../protocol/task/status.ts";

export type Kind = "sqlite" | "postgres";

/**
 * The tables, the same in both databases. `events` is the truth; `tasks`, `missions`, `texts`, `metadata` and
 * `snapshots` are derived from it in the same transaction. Times are in milliseconds. JSON is stored as text, since
 * `jsonb` rejects lone surrogates.
 */
export type Tables = {
  migrations: { name: string; at: string };
  /**
   * One row, id 1: the newest position, and whether the last process closed the database cleanly (SQLite only). `old`:
   * the newest position when `tasks.position` and `blob_names` were added; `named`: the position up to which the blobs
   * of those older events are in `blob_names`. Both are 0 in a database that has had them from the beginning.
   */
  log: { id: number; position: number; clean: number; old: number; named: number };
  events: { position: number; stream: string; version: number; type: string; at: string; data: string };
  streams: Head;
  /** List rows of Tasks. `project` is the SHA-256 of its identity: a path can be too long for an index entry. */
  tasks: {
    stream: string;
    project: string;
    updated: number;
    lifecycle: LifecycleStatus;
    pillar: string;
    squad: string;
    priority: string;
    archived: number;
    revision: number;
    summary: string;
    /** The Mission's stream, its id, and the tool call that dispatched the Task: one Task per call. */
    mission: string | null;
    mission_id: string | null;
    call: string | null;
    /** For a Task that produces a squad: the phase that the squad is to own. */
    production: string | null;
    /** The position of its newest event; null while that is at or before `log.old`. */
    position: number | null;
    /** What it counts as in the overview, and since when it has failed; null: it does not count. */
    overview: "need" | "run" | "queue" | "failed" | null;
    settled: number | null;
  };
  /**
   * How many Tasks a project has, how many of them are active, and what those count as in the overview; maintained by
   * triggers on `tasks`. `counted` 0: the triggers were added to a log in use, and the Tasks from before are not
   * counted yet. `latest`: the Task that was added last, as long as it exists.
   */
  project_counts: {
    project: string;
    tasks: number;
    active: number;
    need: number;
    run: number;
    queue: number;
    counted: number;
    latest: string | null;
  };
  /** List rows of Missions. `name` is the SHA-256 of project and Mission id: one Mission per pair. */
  missions: {
    stream: string;
    name: string;
    project: string;
    mission_id: string;
    updated: number;
    archived: number;
    revision: number;
    summary: string;
    /** How many of its own asks are open; null: unknown, because the row was written before this was recorded. */
    asks: number | null;
    priority: string;
  };
  /** What `search` matches, in lower case; rewritten only when the title changes. */
  texts: { stream: string; text: string };
  /**
   * SQLite only, together with the virtual table `text_trigrams`: the numbers that texts have in it, and the texts that
   * wait for one. `text_index` has one row, id 1. `upto`: of the texts from before the index, those up to this stream
   * are in it; null: all are. `removed`: how many texts were removed since the last rewrite; `merged`: how many rows
   * the last step of a merge changed.
   */
  text_ids: { id: number; stream: string };
  text_pending: { stream: string };
  text_index: { id: number; upto: string | null; removed: number; merged: number };
  metadata: { stream: string; key: string; value: string };
  snapshots: { stream: string; version: number; revision: number; state: string };
  /** Which streams name which blobs. For events at or before `log.old`, only those up to `log.named` are included. */
  blob_names: { sha256: string; stream: string };
  /** Hashes that erased streams named, until a sweep has checked whether another stream names them. */
  orphans: { sha256: string };
  /** `id` is the SHA-256 of scope and key. */
  answers: { id: string; body_hash: string; status: number; body: string; at: number };
  /**
   * One row, id 1: the position up to which the log was searched for deliveries, and the secrets that sign callbacks.
   */
  webhook_log: { id: number; position: number; secrets: string };
  webhooks: {
    id: string;
    url: string;
    events: string;
    project: string | null;
    directory: string | null;
    description: string;
    state: string;
    reason: string | null;
    secrets: string;
    /** The log's position when it was added: it gets only later events. */
    since: number;
    failing_since: number | null;
    created: number;
    updated: number;
  };
  /** A Task's or a Mission's `callbackURL` in full; the log has it without its query. */
  callbacks: { stream: string; url: string };
  deliveries: {
    id: string;
    /** A webhook's id, or `callback` for the stream's own. */
    webhook: string;
    /** Gets one request at a time: a webhook's id, or the origin of a callback URL. */
    target: string;
    stream: string;
    message: string;
    type: string;
    position: number;
    body: string;
    state: string;
    attempts: number;
    due_at: number;
    holder: string | null;
    lease_until: number | null;
    status: number | null;
    reason: string | null;
    duration: number | null;
    created: number;
    updated: number;
  };
};

/** The state of a stream next to its events: its version, who holds its claim, and when it is due. */
export type Head = {
  stream: string;
  version: number;
  epoch: number;
  holder: string | null;
  /** PostgreSQL only: when the claim expires, by the database's clock. */
  lease_until: number | null;
  due_at: number | null;
  rank: number;
  due_seq: number;
  /** Releases in a row without progress; each doubles the backoff. */
  fruitless: number;
  lifecycle: LifecycleStatus;
};

/** Tables whose rows are removed with an erased stream. */
export const ofStreams = [
  "events",
  "streams",
  "tasks",
  "missions",
  "texts",
  "metadata",
  "snapshots",
  "blob_names",
  "callbacks",
  "deliveries",
] as const satisfies (keyof Tables)[];
