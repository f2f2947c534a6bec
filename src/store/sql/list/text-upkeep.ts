import { type CompiledQuery, type Kysely, sql } from "kysely";
import type { StreamID } from "../../../domain/event.ts";
import type { Log } from "../../../log.ts";
import { indexText } from "../migration/text-index.ts";
import type { Reader } from "../reader.ts";
import type { Tables } from "../schema.ts";
import type { Atomically } from "../write.ts";
import { inSteps, type Steps } from "./background-steps.ts";

/**
 * Maintains the index of texts on SQLite, in the background: adds new texts, and those from before the index; merges
 * its parts; and rewrites it after texts were removed, since the trigrams of a removed text stay in the file until
 * then, though the text is no longer found. All progress is noted in the database: if a process ends in between, the
 * next one does the rest.
 */

/** The most texts of one step, and the most characters. */
const atOnce = 50;
const charactersAtOnce = 25_000;

/** Pages of the index that one step of a merge writes. */
const pages = 4;

/** Milliseconds to wait after a change, since more may come. */
const soonMs = 500;
/** The rest after a rewrite: this many times as long as the rewrite took, and at least `restMs`. */
const restTimes = 30;
const restMs = 10_000;

const saidEach = 100_000;

export const keepTextIndex = (options: {
  db: Kysely<Tables>;
  reader: Reader;
  atomically: Atomically;
  log: Log;
}): Steps => {
  const { db, reader, atomically, log } = options;
  /** The number of older texts that this process indexed, and that of all texts. */
  let older: { done: number; all: number } | undefined;
  /** Whether parts of the index may have to be merged. */
  let merges = true;
  /** The rewrite under way: the removals that it covers, and since when it runs. */
  let rewriting: { removed: number; since: number; steps: number } | undefined;
  let nextRewrite = 0;

  const addAll = async (streams: readonly StreamID[], rest: CompiledQuery): Promise<void> => {
    await atomically([...streams.map((stream) => indexText(stream).compile(db)), rest]);
    merges = true;
  };

  const addPending = async (): Promise<boolean> => {
    const { rows } = await sql<{ stream: StreamID; size: number }>`
      select stream, length(text) as size from text_pending cross join texts using (stream) limit ${atOnce}`.execute(
      db,
    );
    const part = within(rows);
    if (part.length === 0) return false;
    await addAll(part, db.deleteFrom("text_pending").where("stream", "in", part).compile());
    return true;
  };

  const addOlder = async (upto: string): Promise<void> => {
    if (older === undefined) {
      const [all] = await reader.rows(sql<{ count: number }>`select count(*) as count from texts`.compile(db));
      older = { done: 0, all: all?.count ?? 0 };
      log.info(
        { texts: older.all },
        "the texts of all Tasks and Missions are being indexed; searches take longer until then",
      );
    }
    const rows = await reader.rows(
      sql<{ stream: StreamID; size: number }>`
        select stream, length(text) as size from texts where stream > ${upto} order by stream limit ${atOnce}`.compile(
        db,
      ),
    );
    const part = within(rows);
    await addAll(
      part,
      db
        .updateTable("text_index")
        .set({ upto: part.at(-1) ?? null })
        .compile(),
    );
    const before = older.done;
    older.done += part.length;
    if (part.length === 0) log.info({ texts: older.done }, "all texts are indexed");
    else if (Math.floor(before / saidEach) < Math.floor(older.done / saidEach))
      log.info({ texts: older.done, of: older.all }, "texts are being indexed");
  };

  /**
   * Resolves to whether there was something to merge. `whole`: begins to merge all parts into one, without the removed
   * texts.
   */
  const merge = async (whole: boolean): Promise<boolean> => {
    // The number of changes tells whether a merge did anything: if not, it is at most one row of its own.
    await atomically([
      sql`update text_index set merged = total_changes()`.compile(db),
      sql`insert into text_trigrams (text_trigrams, rank) values ('merge', ${sql.lit(whole ? -pages : pages)})`.compile(
        db,
      ),
      sql`update text_index set merged = total_changes() - merged - 1`.compile(db),
    ]);
    const { merged } = await db.selectFrom("text_index").select("merged").executeTakeFirstOrThrow();
    return merged >= 2;
  };

  const rewrite = async (): Promise<void> => {
    const { removed } = await db.selectFrom("text_index").select("removed").executeTakeFirstOrThrow();
    rewriting ??= { removed, since: performance.now(), steps: 0 };
    rewriting.steps += 1;
    if (await merge(rewriting.steps === 1)) return;
    await atomically([sql`update text_index set removed = removed - ${rewriting.removed}`.compile(db)]);
    nextRewrite = performance.now() + Math.max(restMs, restTimes * (performance.now() - rewriting.since));
    rewriting = undefined;
  };

  const step = async (): Promise<number | undefined> => {
    if (await addPending()) return 0;
    const { upto, removed } = await db.selectFrom("text_index").select(["upto", "removed"]).executeTakeFirstOrThrow();
    if (upto !== null) {
      await addOlder(upto);
      return 0;
    }
    if (merges && rewriting === undefined) {
      merges = await merge(false);
      return 0;
    }
    if (removed === 0) return undefined;
    const waits = nextRewrite - performance.now();
    if (rewriting === undefined && waits > 0) return waits;
    await rewrite();
    return 0;
  };
  return inSteps({ step, soonMs, failed: "the index of texts could not be kept; it is tried again", log });
};

/** The first texts, as many as one step takes; at least one. */
const within = (texts: readonly { stream: StreamID; size: number }[]): StreamID[] => {
  let sum = 0;
  return texts
    .filter(({ size }, index) => (sum += size) <= charactersAtOnce || index === 0)
    .map(({ stream }) => stream);
};
