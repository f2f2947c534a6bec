import { type Kysely, type RawBuilder, type SqlBool, sql } from "kysely";
import type { StreamID } from "../../domain/event.ts";
import type { Tables } from "./schema.ts";
import type { Full } from "../running.ts";
import type { QueuePlace, Store } from "../store.ts";
import { runningIn } from "./running.ts";

/** The queue of due streams, with the same SQL for both databases. */

/** `here`: which streams this service may run at this moment; by default all. */
export const createQueue = (
  db: Kysely<Tables>,
  here: () => RawBuilder<SqlBool> = () => sql<SqlBool>`true`,
): Pick<Store, "due" | "running" | "nextDue" | "waiting" | "places"> => ({
  async due(now, limit, full) {
    const rows = await db
      .selectFrom("streams")
      .select(["stream", "due_at", "rank", "due_seq"])
      .where("due_at", "<=", now.getTime())
      .where("due_at", "is not", null)
      .where("holder", "is", null)
      .where(here())
      .where(hasRoom(full))
      .orderBy("rank")
      .orderBy("due_at")
      .orderBy("stream")
      .limit(limit)
      .execute();
    return rows.map(({ stream, due_at, rank, due_seq }) => ({
      stream,
      due: { at: new Date(due_at ?? 0), rank },
      seq: due_seq,
    }));
  },

  running: (named = []) => runningIn(db, named),

  async nextDue() {
    const row = await db
      .selectFrom("streams")
      .select("due_at")
      .where("due_at", "is not", null)
      .where("holder", "is", null)
      .where(here())
      .orderBy("due_at")
      .limit(1)
      .executeTakeFirst();
    return row?.due_at == null ? undefined : new Date(row.due_at);
  },

  async waiting() {
    const row = await db
      .selectFrom("streams")
      .select((count) => count.fn.countAll<number>().as("count"))
      .where("due_at", "is not", null)
      .where("holder", "is", null)
      .where("stream", "like", "task%")
      .executeTakeFirstOrThrow();
    return row.count;
  },

  async places(streams) {
    if (streams.length === 0) return new Map();
    if (streams.length <= few) return counted(db, streams);
    const now = Date.now();
    const own = await queued(db)
      .where("stream", "in", [...streams])
      .execute();
    const waiting = own.map(({ stream, rank, due_at }) => ({ stream, rank, at: due_at ?? 0 }));
    const later = waiting.filter(({ at }) => at > now).map(({ stream }) => stream);
    if (later.length > few) return numbered(db, streams, now);
    const places = later.length === 0 ? new Map<StreamID, QueuePlace>() : await counted(db, later);
    for (const [stream, place] of await between(
      db,
      waiting.filter(({ at }) => at <= now),
      now,
    ))
      places.set(stream, place);
    return places;
  },
});

/**
 * Leaves out Tasks for which there is no room. Missions need none, nor do Tasks that only have to be ended (rank 0).
 */
const hasRoom = (full: Full | undefined): RawBuilder<SqlBool> => {
  if (full === undefined || (!full.all && full.projects.length === 0)) return sql`true`;
  const [all, projects] = [sql.lit(full.all), sql`tasks.project in (${sql.join([...full.projects, ""])})`];
  return sql<SqlBool>`(streams.rank = 0 or not exists (
    select 1 from tasks where tasks.stream = streams.stream and (${all} or ${projects})))`;
};

/** All waiting streams, in the order in which they run. */
const queued = (db: Kysely<Tables>) =>
  db
    .selectFrom("streams")
    .select(["stream", "rank", "due_at"])
    .where("due_at", "is not", null)
    .where("holder", "is", null)
    .orderBy("rank")
    .orderBy("due_at")
    .orderBy("stream");

/** Up to this many streams, the streams ahead are counted for each one separately. */
const few = 2;

/** A stream that becomes due later than this one does not run before it, whatever its rank. */
const counted = async (db: Kysely<Tables>, streams: readonly StreamID[]): Promise<Map<StreamID, QueuePlace>> => {
  const now = Date.now();
  // Compared as rows, so that both databases count along the index of waiting streams, in its order; `+` keeps SQLite
  // from using another index.
  const { rows } = await sql<{ stream: StreamID; rank: number; due_at: number; ahead: number }>`
    select own.stream, own.rank, own.due_at, (
      select count(*) from streams as other
       where other.due_at is not null and other.holder is null
         and (other.rank, other.due_at, other.stream) < (own.rank, own.due_at, own.stream)
         and +other.due_at <= case when own.due_at > ${now} then own.due_at else ${now} end) as ahead
      from streams as own
     where own.stream in (${sql.join([...streams])}) and own.due_at is not null and own.holder is null`.execute(db);
  return new Map(
    rows.map(({ stream, rank, due_at, ahead }) => [stream, { ahead, due: { at: new Date(due_at), rank } }]),
  );
};

type Waiting = { stream: StreamID; rank: number; at: number };

/**
 * The places of streams that are due now, given in the order in which they run: counts the streams from each one to the
 * next, which passes the queue only once.
 */
const between = async (
  db: Kysely<Tables>,
  waiting: readonly Waiting[],
  now: number,
): Promise<Map<StreamID, QueuePlace>> => {
  const places = new Map<StreamID, QueuePlace>();
  if (waiting.length === 0) return places;
  const key = ({ rank, at, stream }: Waiting) =>
    sql`cast(${rank} as double precision), cast(${at} as bigint), cast(${stream} as text)`;
  const first: Waiting = { rank: -Number.MAX_VALUE, at: 0, stream: "" };
  const parts = waiting.map((own, index) => sql`(${sql.lit(index)}, ${key(waiting[index - 1] ?? first)}, ${key(own)})`);
  const { rows } = await sql<{ part: number; count: number }>`
    select part, (
      select count(*) from streams
       where due_at is not null and holder is null and +due_at <= ${now}
         and rank >= rank0 and rank <= rank1
         and (+rank, due_at, stream) >= (rank0, at0, stream0) and (+rank, due_at, stream) < (rank1, at1, stream1)) as count
      from (
        with named (part, rank0, at0, stream0, rank1, at1, stream1) as (values ${sql.join(parts)}) select * from named
      ) parts order by part`.execute(db);
  let ahead = 0;
  for (const { part, count } of rows) {
    const own = waiting[part];
    ahead += count;
    if (own !== undefined) places.set(own.stream, { ahead, due: { at: new Date(own.at), rank: own.rank } });
  }
  return places;
};

/** Reads all waiting streams, in the order in which they run. */
const numbered = async (
  db: Kysely<Tables>,
  streams: readonly StreamID[],
  now: number,
): Promise<Map<StreamID, QueuePlace>> => {
  const wanted = new Set(streams);
  const rows = await queued(db).execute();
  const places = new Map<StreamID, QueuePlace>();
  const before: number[] = [];
  let dueNow = 0;
  for (const { stream, rank, due_at } of rows) {
    const at = due_at ?? 0;
    if (wanted.has(stream)) {
      // A stream that becomes due later than this one does not run before it, whatever its rank.
      const ahead = at <= now ? dueNow : before.reduce((sum, other) => (other <= at ? sum + 1 : sum), 0);
      places.set(stream, { ahead, due: { at: new Date(at), rank } });
    }
    before.push(at);
    if (at <= now) dueNow += 1;
  }
  return places;
};
