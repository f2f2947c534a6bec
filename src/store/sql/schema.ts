import type { LifecycleStatus } from "../../protocol/task/status.ts";

/**
 * The tables, the same in both databases. `events` is the truth; `tasks`, `missions`, `texts`, `metadata` and `snapshots` are
 * folds of it, written in the same transaction. Times are milliseconds, JSON is text: `jsonb` refuses lone surrogates.
 */
export type Tables = {
  migrations: { name: string; at: string };
  /** One row, id 1: the newest position, and whether the last process closed the database (SQLite). */
  log: { id: number; position: number; clean: number };
  events: { position: number; stream: string; version: number; type: string; at: string; data: string };
  streams: Head;
  /** List rows. `project` is the SHA-256 of its identity: a path can be longer than an index entry may be. */
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
    /** The Mission's stream, its id, and the call that dispatched the Task: one Task for each call. */
    mission: string | null;
    mission_id: string | null;
    call: string | null;
    /** Of a Task that produces a squad: the phase that it is to own. */
    production: string | null;
  };
  /** List rows of Missions. `name` is the SHA-256 of project and Mission id: one Mission for each pair. */
  missions: {
    stream: string;
    name: string;
    project: string;
    mission_id: string;
    updated: number;
    archived: number;
    revision: number;
    summary: string;
  };
  /** What `search` looks through, in lower case; written anew only when the title changes. */
  texts: { stream: string; text: string };
  metadata: { stream: string; key: string; value: string };
  snapshots: { stream: string; version: number; revision: number; state: string };
  /** Hashes that erased streams named, until somebody has looked who else does. */
  orphans: { sha256: string };
  /** `id` is the SHA-256 of scope and key. */
  answers: { id: string; body_hash: string; status: number; body: string; at: number };
  /** One row, id 1: how far the log was looked through for deliveries, and the secrets that callbacks are signed with. */
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
    /** The position in the log that it was made at: later facts are its own. */
    since: number;
    failing_since: number | null;
    created: number;
    updated: number;
  };
  /** Where a Task's own end is told to, whole; the log has it without its query. */
  callbacks: { stream: string; url: string };
  deliveries: {
    id: string;
    /** `callback`: the Task's own. */
    webhook: string;
    /** What takes one request at a time: a webhook's id, or the origin of callbacks. */
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

/** What is known of a stream beside its events: how far it is, who moves it, when it wants to run. */
export type Head = {
  stream: string;
  version: number;
  epoch: number;
  holder: string | null;
  /** PostgreSQL only: until when the claim holds, by the database's clock. */
  lease_until: number | null;
  due_at: number | null;
  rank: number;
  due_seq: number;
  /** Releases in a row that brought nothing; the backoff doubles with each. */
  fruitless: number;
  lifecycle: LifecycleStatus;
};

/** What goes with a stream that is erased. */
export const ofStreams = [
  "events",
  "streams",
  "tasks",
  "missions",
  "texts",
  "metadata",
  "snapshots",
  "callbacks",
  "deliveries",
] as const satisfies (keyof Tables)[];
