import { type Kysely, type RawBuilder, sql } from "kysely";
import type { StreamID } from "../../domain/event.ts";
import type { Answer, Changes } from "../batch/batch.ts";
import {
  blobNames,
  eventRow,
  foldRows,
  metadataRows,
  missionRow,
  namesMetadata,
  fromSnapshot,
  searchText,
  snapshotRow,
  taskRow,
} from "../sql/row.ts";
import type { Cache } from "../sql/fold-cache.ts";
import { type Fold, isMissionFold, isTaskFold, streamOf } from "../sql/fold.ts";
import { clock } from "./lease.ts";
import { transactionID, type Trx } from "./outcome.ts";
import { type Head, ofStreams, type Tables } from "../sql/schema.ts";
import type { Json, RunningTasks } from "../store.ts";
import { runningIn } from "../sql/running.ts";

/** What a batch on PostgreSQL loads under its locks, and how it is written. */

export type Needs = {
  streams: readonly StreamID[];
  /** Streams whose fold is needed as well. */
  folds: readonly StreamID[];
  /** Whether events are to be written. */
  appends: boolean;
  answers: readonly string[];
  /** Names that new Missions ask for. */
  names: readonly string[];
  /** Streams to be claimed, where the number of running Tasks is bounded. */
  claims: readonly StreamID[];
};

const noTasks: RunningTasks = { running: new Map(), projects: new Map() };

/**
 * Every transaction takes its locks in the same order: idempotency keys, names, the bounds, streams by id, then the
 * log's row. Only the holder of the log's row assigns positions until it commits, so that position 2 is never visible
 * before position 1.
 */
export const lockAndLoad = async (trx: Trx, needs: Needs, cache: Cache) => {
  const streams = [...new Set([...needs.streams, ...needs.folds])];
  const ids = [...new Set(needs.answers)];
  const names = new Map<string, StreamID>();
  const answers = new Map<string, Answer>();
  if (ids.length > 0) {
    await sql`
      select pg_advisory_xact_lock(key) from (
        select distinct hashtextextended(id, 0) as key from unnest(${ids}::text[]) as id order by key
      ) as keys`.execute(trx);
    for (const row of await trx.selectFrom("answers").selectAll().where("id", "in", ids).execute())
      answers.set(row.id, {
        bodyHash: row.body_hash,
        stored: { status: row.status, body: JSON.parse(row.body) as Json },
      });
  }
  if (needs.names.length > 0) {
    const wanted = [...new Set(needs.names)];
    await sql`
      select pg_advisory_xact_lock(key) from (
        select distinct hashtextextended(name, 1) as key from unnest(${wanted}::text[]) as name order by key
      ) as keys`.execute(trx);
    for (const row of await trx.selectFrom("missions").select(["name", "stream"]).where("name", "in", wanted).execute())
      names.set(row.name, row.stream);
  }
  // Where running Tasks are counted, only one claim is taken at a time: two could take the last place.
  if (needs.claims.length > 0)
    await sql`select pg_advisory_xact_lock(hashtextextended('running ' || current_schema(), 2))`.execute(trx);
  const heads = new Map<StreamID, Head>();
  if (streams.length > 0)
    for (const row of await trx
      .selectFrom("streams")
      .selectAll()
      .where("stream", "in", streams)
      .orderBy("stream")
      .forUpdate()
      .execute())
      heads.set(row.stream, row);
  const tasks = needs.claims.length > 0 ? await runningIn(trx, needs.claims) : noTasks;
  const states = new Map<StreamID, Fold>();
  for (const stream of new Set(needs.folds)) {
    const version = heads.get(stream)?.version;
    if (version === undefined) continue;
    const state = await loadState(trx, stream, version, cache.get(stream));
    if (state !== undefined) states.set(stream, state);
  }
  const log = needs.appends ? trx.selectFrom("log").forUpdate() : trx.selectFrom("log");
  const { position, now, id } = await log
    .select(["position", clock.as("now"), transactionID.as("id")])
    .executeTakeFirstOrThrow();
  return { answers, heads, states, names, tasks, position, id, now: new Date(now) };
};

/**
 * The fold at this version or a later one: the cached one if it has this version, otherwise the cached one or the
 * snapshot plus the events since.
 */
export const loadState = async (
  db: Kysely<Tables>,
  stream: StreamID,
  version: number,
  cached: Fold | undefined,
): Promise<Fold | undefined> => {
  if (cached?.version === version) return cached;
  const tail = (after: number) =>
    db.selectFrom("events").selectAll().where("stream", "=", stream).where("version", ">", after).orderBy("version");
  const from =
    cached !== undefined && cached.version < version
      ? cached
      : fromSnapshot(await db.selectFrom("snapshots").selectAll().where("stream", "=", stream).executeTakeFirst());
  return foldRows(from, await tail(from?.version ?? 0).execute());
};

export const save = async (trx: Trx, changes: Changes, now: Date): Promise<void> => {
  const erased = [...changes.erased];
  if (erased.length > 0)
    for (const table of ofStreams) await trx.deleteFrom(table).where("stream", "in", erased).execute();

  const states = [...changes.states.values()];
  const described = new Set(changes.events.filter(namesMetadata).map((event) => event.stream));
  const events = changes.events.map(eventRow);
  await put(trx, "events", events);
  const named = new Map(blobNames(events).map((row) => [`${row.sha256} ${row.stream}`, row]));
  await put(trx, "blob_names", [...named.values()], sql`on conflict do nothing`);
  await put(trx, "streams", [...changes.heads.values()], "stream");
  const tasks = states.filter(isTaskFold);
  await put(trx, "tasks", tasks.map(taskRow), "stream");
  await put(trx, "missions", states.filter(isMissionFold).map(missionRow), "stream");
  const kept = states.filter((state) => changes.snapshots.has(streamOf(state)));
  await put(trx, "snapshots", kept.map(snapshotRow), "stream");
  const titled = states.filter((state) => changes.titles.has(streamOf(state)));
  await put(
    trx,
    "texts",
    titled.map((state) => ({ stream: streamOf(state), text: searchText(state) })),
    "stream",
  );
  const own = states.filter((state) => described.has(streamOf(state)));
  const missions = own.filter(isMissionFold).map(streamOf);
  if (missions.length > 0) await trx.deleteFrom("metadata").where("stream", "in", missions).execute();
  await put(trx, "metadata", own.flatMap(metadataRows));
  await put(
    trx,
    "answers",
    [...changes.answers].map(([id, { bodyHash, stored }]) => ({
      id,
      body_hash: bodyHash,
      status: stored.status,
      body: JSON.stringify(stored.body),
      at: now.getTime(),
    })),
  );
  const callbacks = [...changes.callbacks].map(([stream, url]) => ({ stream, url }));
  await put(trx, "callbacks", callbacks, "stream");
  if (changes.events.length > 0) await trx.updateTable("log").set({ position: changes.position }).execute();
};

/** Rows per statement; PostgreSQL allows 65,535 parameters. */
const chunk = 1000;

/**
 * Inserts rows. With a column as `key`, replaces the row that has the same value there; with a clause of SQL, does what
 * it says on a conflict.
 */
const put = async <T extends keyof Tables>(
  trx: Trx,
  table: T,
  rows: readonly Tables[T][],
  key?: (keyof Tables[T] & string) | RawBuilder<unknown>,
): Promise<void> => {
  for (let at = 0; at < rows.length; at += chunk) {
    const part = rows.slice(at, at + chunk);
    const columns = Object.keys(part[0] ?? {}) as (keyof Tables[T] & string)[];
    const values = part.map((row) => sql`(${sql.join(columns.map((column) => row[column]))})`);
    const names = sql.join(columns.map((column) => sql.ref(column)));
    await sql`insert into ${sql.table(table)} (${names}) values ${sql.join(values)} ${onConflict(columns, key)}`.execute(
      trx,
    );
  }
};

const onConflict = (columns: readonly string[], key: string | RawBuilder<unknown> | undefined): RawBuilder<unknown> => {
  if (typeof key !== "string") return key ?? sql``;
  const rest = columns.filter((column) => column !== key);
  const replaced = sql.join(rest.map((column) => sql`${sql.ref(column)} = excluded.${sql.ref(column)}`));
  return sql`on conflict (${sql.ref(key)}) do update set ${replaced}`;
};
