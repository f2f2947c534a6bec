import { setTimeout as pause } from "node:timers/promises";
import { type Kysely, sql } from "kysely";
import type { StreamID } from "../../domain/event.ts";
import { type Space, withReserve } from "../disk/disk.ts";
import type { OrphanBlobs } from "../store.ts";
import { unavailable } from "../unavailable.ts";
import { hashesIn } from "./blob-name.ts";
import type { Reader } from "./reader.ts";
import type { Kind, Tables } from "./schema.ts";
import type { Atomically } from "./write.ts";

/**
 * Finds blobs that no stream names any more. Each commit records which blobs its events name; erasing a stream leaves
 * the hashes that it named, and a sweep checks for each one whether another stream names it.
 */

/** Events read at a time. */
const pageSize = 200;

/** Rows of one statement. */
const chunk = 500;

const chunks = <T>(rows: readonly T[]): T[][] =>
  Array.from({ length: Math.ceil(rows.length / chunk) }, (_, index) => rows.slice(index * chunk, (index + 1) * chunk));

/** Events of an older version that are searched at a time, and the pause after them in milliseconds. */
const step = 1000;
const pauseMs = 25;

export const createOrphanBlobs = (
  db: Kysely<Tables>,
  reader: Reader,
  kind: Kind,
  atomically: Atomically,
  space: Space,
): OrphanBlobs => {
  const progress = () => db.selectFrom("log").select(["old", "named"]).executeTakeFirstOrThrow();

  const insertOrphans = async (named: ReadonlySet<string>): Promise<void> => {
    for (const part of chunks([...named].map((sha256) => ({ sha256 }))))
      await db
        .insertInto("orphans")
        .values(part)
        .onConflict((conflict) => conflict.doNothing())
        .execute();
  };

  /** The hashes that the stream's own events name. */
  const namedBy = async (stream: StreamID): Promise<Set<string>> => {
    const named = new Set<string>();
    for (let after = 0; ; ) {
      const page = await reader.rows(
        db
          .selectFrom("events")
          .select(["version", "data"])
          .where("stream", "=", stream)
          .where("version", ">", after)
          .orderBy("version")
          .limit(pageSize)
          .compile(),
      );
      for (const { data } of page) for (const sha256 of hashesIn(data)) named.add(sha256);
      if (page.length < pageSize) return named;
      after = page.at(-1)?.version ?? after;
    }
  };

  const markOrphans = async (stream: StreamID): Promise<void> => {
    const { old, named } = await progress();
    if (named < old) await insertOrphans(await namedBy(stream));
    await sql`
      insert into orphans (sha256) select sha256 from blob_names where stream = ${stream}
      on conflict do nothing`.execute(db);
  };

  const forget = async (orphans: readonly string[]): Promise<void> => {
    for (const part of chunks(orphans)) await db.deleteFrom("orphans").where("sha256", "in", part).execute();
  };

  /** The hashes in the data of an event, separated by spaces; null: it has none. */
  const hashes =
    kind === "sqlite"
      ? sql<string>`hashes_in(data)`
      : sql<string>`(select string_agg(found[1], ' ') from regexp_matches(data, '[0-9a-f]{64}(?=")', 'g') as found)`;

  const nameStretch = async (from: number, to: number, signal: AbortSignal): Promise<void> => {
    const found = await reader.rows(
      sql<{ stream: string; found: string }>`
        select stream, found from (
          select stream, ${hashes} as found from events where position > ${from} and position <= ${to}
        ) named where found is not null`.compile(db),
      signal,
    );
    const keys = new Set(found.flatMap((row) => row.found.split(" ").map((sha256) => `${sha256} ${row.stream}`)));
    const rows = [...keys].map((key) => {
      const [sha256 = "", stream = ""] = key.split(" ");
      return { sha256, stream };
    });
    const streams = [...new Set(rows.map(({ stream }) => stream))];
    await atomically([
      ...chunks(rows).map((part) =>
        db
          .insertInto("blob_names")
          .values(part)
          .onConflict((conflict) => conflict.doNothing())
          .compile(),
      ),
      // Some streams may have been erased since they were read.
      ...chunks(streams).map((part) =>
        db
          .deleteFrom("blob_names")
          .where("stream", "in", part)
          .where(sql<boolean>`not exists (select 1 from streams where streams.stream = blob_names.stream)`)
          .compile(),
      ),
      db.updateTable("log").set({ named: to }).where("named", "<", to).compile(),
    ]);
  };

  return {
    async markOrphans(stream) {
      try {
        await withReserve(space, () => markOrphans(stream));
      } catch (error) {
        throw unavailable(error);
      }
    },

    async release(stream, blobs) {
      const notes = blobs.map((sha256) => ({ sha256 }));
      try {
        await atomically(
          chunks(notes).flatMap((part) => [
            db
              .insertInto("orphans")
              .values(part)
              .onConflict((conflict) => conflict.doNothing())
              .compile(),
            db
              .deleteFrom("blob_names")
              .where("stream", "=", stream)
              .where(
                "sha256",
                "in",
                part.map(({ sha256 }) => sha256),
              )
              .compile(),
          ]),
        );
      } catch (error) {
        throw unavailable(error);
      }
    },

    async nameBlobs(signal) {
      for (;;) {
        const { old, named } = await progress();
        if (named >= old || signal.aborted) return;
        await nameStretch(named, Math.min(named + step, old), signal);
        await pause(pauseMs, undefined, { signal }).catch(() => {});
      }
    },

    async find() {
      const { old, named } = await progress();
      const wanted: string[] = [];
      const orphans: string[] = [];
      const any = await db.selectFrom("orphans").select("sha256").limit(1).executeTakeFirst();
      if (named < old || any === undefined) return orphans;
      for (let after = ""; ; ) {
        const page = await reader.rows(
          sql<{ sha256: string; streams: number }>`
            select sha256, (select count(*) from (
              select 1 from blob_names where blob_names.sha256 = orphans.sha256 limit 1) one) as streams
              from orphans where sha256 > ${after} order by sha256 limit ${chunk}`.compile(db),
        );
        for (const { sha256, streams } of page) (streams === 0 ? orphans : wanted).push(sha256);
        if (page.length < chunk) break;
        after = page.at(-1)?.sha256 ?? after;
      }
      await forget(wanted);
      return orphans;
    },

    forget,
  };
};
