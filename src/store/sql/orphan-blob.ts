import { setImmediate } from "node:timers/promises";
import type { Kysely } from "kysely";
import type { StreamID } from "../../domain/event.ts";
import type { OrphanBlobs } from "../store.ts";
import { unavailable } from "../unavailable.ts";
import type { Tables } from "./schema.ts";

/**
 * Finds blobs that no stream names any more. Erasing a stream leaves a list of the hashes that it named; a sweep
 * searches the rest of the log for all of them in one pass. No reference counts are kept while Tasks run.
 */

/** Whatever looks like a hash is treated as one; at worst a file is kept for nothing. */
const hashes = /[0-9a-f]{64}/g;

const pageSize = 200;

const chunk = 500;

export const createOrphanBlobs = (db: Kysely<Tables>): OrphanBlobs => {
  /** The data of events in the order of the log, yielding to other work after each page. */
  async function* texts(stream?: StreamID): AsyncGenerator<string> {
    for (let after = 0; ; ) {
      let query = db.selectFrom("events").select(["position", "data"]).where("position", ">", after);
      if (stream !== undefined) query = query.where("stream", "=", stream);
      const page = await query.orderBy("position").limit(pageSize).execute();
      for (const { data } of page) yield data;
      if (page.length < pageSize) return;
      after = page.at(-1)?.position ?? after;
      await setImmediate();
    }
  }

  const forget = async (orphans: readonly string[]): Promise<void> => {
    for (let at = 0; at < orphans.length; at += chunk)
      await db
        .deleteFrom("orphans")
        .where("sha256", "in", orphans.slice(at, at + chunk))
        .execute();
  };

  const markOrphans = async (stream: StreamID): Promise<void> => {
    const named = new Set<string>();
    for await (const text of texts(stream)) for (const [sha256] of text.matchAll(hashes)) named.add(sha256);
    const rows = [...named].map((sha256) => ({ sha256 }));
    for (let at = 0; at < rows.length; at += chunk)
      await db
        .insertInto("orphans")
        .values(rows.slice(at, at + chunk))
        .onConflict((conflict) => conflict.doNothing())
        .execute();
  };

  return {
    async markOrphans(stream) {
      try {
        await markOrphans(stream);
      } catch (error) {
        throw unavailable(error);
      }
    },
    async find() {
      const left = new Set((await db.selectFrom("orphans").select("sha256").execute()).map(({ sha256 }) => sha256));
      const wanted: string[] = [];
      if (left.size === 0) return [];
      for await (const text of texts()) {
        for (const [sha256] of text.matchAll(hashes)) if (left.delete(sha256)) wanted.push(sha256);
        if (left.size === 0) break;
      }
      await forget(wanted);
      return [...left];
    },
    forget,
  };
};
