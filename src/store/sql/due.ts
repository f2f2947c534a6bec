import { type Kysely, type RawBuilder, type SqlBool, sql } from "kysely";
import type { StreamID } from "../../domain/event.ts";
import type { Tables } from "./schema.ts";
import type { QueuePlace, Store } from "../store.ts";

/** The queue of due streams, with the same SQL for both databases. */

/** `here`: which streams are this service's to run at this moment; all, if that is not said. */
export const createQueue = (
  db: Kysely<Tables>,
  here: () => RawBuilder<SqlBool> = () => sql<SqlBool>`true`,
): Pick<Store, "due" | "nextDue" | "waiting" | "places"> => ({
  async due(now, limit) {
    const rows = await db
      .selectFrom("streams")
      .select(["stream", "due_at", "rank", "due_seq"])
      .where("due_at", "<=", now.getTime())
      .where("due_at", "is not", null)
      .where("holder", "is", null)
      .where(here())
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
    return streams.length <= few ? counted(db, streams) : numbered(db, streams);
  },
});

/** For this many streams those ahead are counted for each; for more, all that wait are read once. */
const few = 2;

const counted = async (db: Kysely<Tables>, streams: readonly StreamID[]): Promise<Map<StreamID, QueuePlace>> => {
  const now = sql<number>`${Date.now()}`;
  const rows = await db
    .selectFrom("streams as own")
    .select((row) => [
      "own.stream",
      "own.due_at",
      "own.rank",
      row
        .selectFrom("streams as other")
        .select((count) => count.fn.countAll<number>().as("count"))
        .where("other.due_at", "is not", null)
        .where("other.holder", "is", null)
        // A stream that becomes due later than this one does not run before it, whatever its rank.
        .where((other) =>
          other.or([other("other.due_at", "<=", now), other("other.due_at", "<=", row.ref("own.due_at"))]),
        )
        .where((other) => {
          const same = other("other.rank", "=", row.ref("own.rank"));
          return other.or([
            other("other.rank", "<", row.ref("own.rank")),
            other.and([same, other("other.due_at", "<", row.ref("own.due_at"))]),
            other.and([
              same,
              other("other.due_at", "=", row.ref("own.due_at")),
              other("other.stream", "<", row.ref("own.stream")),
            ]),
          ]);
        })
        .as("ahead"),
    ])
    .where("own.stream", "in", [...streams])
    .where("own.due_at", "is not", null)
    .where("own.holder", "is", null)
    .execute();
  return new Map(
    rows.map(({ stream, due_at, rank, ahead }) => [
      stream,
      { ahead: ahead ?? 0, due: { at: new Date(due_at ?? 0), rank } },
    ]),
  );
};

/** Reads all that wait in the order in which they run. */
const numbered = async (db: Kysely<Tables>, streams: readonly StreamID[]): Promise<Map<StreamID, QueuePlace>> => {
  const now = Date.now();
  const wanted = new Set(streams);
  const rows = await db
    .selectFrom("streams")
    .select(["stream", "rank", "due_at"])
    .where("due_at", "is not", null)
    .where("holder", "is", null)
    .orderBy("rank")
    .orderBy("due_at")
    .orderBy("stream")
    .execute();
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
