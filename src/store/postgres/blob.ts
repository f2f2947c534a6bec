import { type Kysely, sql } from "kysely";
import { hashOf } from "../../hash.ts";
import type { BlobRef } from "../../protocol/text.ts";
import { isHash, touchedMs, youngMs } from "../blob/folder.ts";
import type { Source } from "../blob/move.ts";
import { cut, writeWith } from "../blob/piece.ts";
import type { Tables } from "../sql/schema.ts";
import type { Blobs, Pieces } from "../store.ts";
import { unavailable, unreadable } from "../unavailable.ts";
import { configOf, openClient } from "./connection.ts";
import { retry } from "./fault.ts";
import { clock } from "./lease.ts";
import type { Trx } from "./outcome.ts";

/**
 * Blobs as rows, so that every service of the database has them: a row of `blobs` for each, and its bytes in
 * `blob_parts`. Both are written in one transaction, so every blob found is complete. Ages are by the database's clock.
 */

/** Bytes of one row, except for a blob's last. It must not change, because stored blobs are cut this way. */
const part = 256 * 1024;

const tables = [
  "create table if not exists blobs (sha256 text primary key, bytes bigint not null, at bigint not null)",
  `create table if not exists blob_parts (
     sha256 text not null references blobs on delete cascade, part integer not null, data bytea not null,
     primary key (sha256, part))`,
];

/** Creates the tables if they are missing. Older versions ignore them. */
export const prepareBlobs = async (db: Kysely<Tables>): Promise<void> => {
  await db.transaction().execute(async (trx) => {
    await sql`select pg_advisory_xact_lock(hashtext('sortie'), hashtext('migrate'))`.execute(trx);
    const { rows } = await sql<{ made: string | null }>`select to_regclass('blob_parts')::text as made`.execute(trx);
    if (rows[0]?.made == null) for (const table of tables) await sql.raw(table).execute(trx);
  });
};

export const hasDatabaseBlobs = async (url: string): Promise<boolean> => {
  const client = await openClient(configOf(url), { statement: 5_000, lock: 2_000 });
  try {
    const { rows } = await client.query<{ made: string | null }>("select to_regclass('blobs')::text as made");
    if (rows[0]?.made == null) return false;
    return (await client.query("select 1 from blobs limit 1")).rows.length > 0;
  } finally {
    await client.end().catch(() => {});
  }
};

/** `apart`: runs a write in a transaction of its own, and retries it until it is known to be done. */
export const createDatabaseBlobs = (options: {
  db: Kysely<Tables>;
  apart: (work: (trx: Trx) => Promise<void>) => Promise<void>;
  signal: AbortSignal;
}): Blobs => {
  const { db, apart, signal } = options;

  const write = ({ sha256, bytes }: BlobRef, pieces: Pieces): Promise<void> =>
    apart(async (trx) => {
      const { rows } = await sql<{ made: boolean }>`
        insert into blobs (sha256, bytes, at) values (${sha256}, ${bytes}, ${clock})
        on conflict (sha256) do update set at = excluded.at returning xmax = 0 as made`.execute(trx);
      // Somebody else has stored it, and the statement refreshed its age.
      if (rows[0]?.made !== true) return;
      let at = 0;
      for await (const data of cut(pieces(), part)) {
        await sql`insert into blob_parts (sha256, part, data) values (${sha256}, ${at}, ${data})`.execute(trx);
        at += 1;
      }
    });

  const keep = async (ref: BlobRef, pieces: Pieces): Promise<void> => {
    const { rows } = await retry(
      () =>
        sql<{ fresh: boolean }>`
          select at > ${clock} - ${touchedMs}::bigint as fresh from blobs where sha256 = ${ref.sha256}`.execute(db),
      signal,
    );
    if (rows[0]?.fresh !== true) await write(ref, pieces);
  };

  const put = async (bytes: Uint8Array): Promise<BlobRef> => {
    const ref = { sha256: await hashOf(bytes), bytes: bytes.byteLength };
    try {
      await keep(ref, () => [bytes]);
    } catch (error) {
      throw unavailable(error);
    }
    return ref;
  };
  const writePieces = writeWith(put, keep);

  /** One statement per part, so that a slow reader does not hold a transaction open. */
  async function* partsOf(sha256: string, bytes: number): AsyncGenerator<Buffer> {
    try {
      for (let at = 0; at * part < bytes; at += 1) {
        const { rows } = await retry(
          () =>
            sql<{ data: Buffer }>`select data from blob_parts where sha256 = ${sha256} and part = ${at}`.execute(db),
          signal,
        );
        if (rows[0] === undefined) throw new Error(`Expected ${bytes} bytes of ${sha256}, got ${at * part}`);
        yield rows[0].data;
      }
    } catch (error) {
      throw unreadable(error);
    }
  }

  return {
    put,
    write: (pieces) =>
      writePieces(pieces).catch((error: unknown) => {
        throw unavailable(error);
      }),

    async get(sha256) {
      if (!isHash(sha256)) return undefined;
      try {
        const { rows } = await retry(
          () =>
            sql<{ bytes: number; data: Buffer | null }>`
              select bytes, data from blobs left join blob_parts using (sha256)
               where sha256 = ${sha256} order by part`.execute(db),
          signal,
        );
        return rows.length === 0 ? undefined : Buffer.concat(rows.flatMap(({ data }) => data ?? []));
      } catch (error) {
        throw unreadable(error);
      }
    },

    async read(sha256) {
      if (!isHash(sha256)) return undefined;
      try {
        const { rows } = await retry(
          () => sql<{ bytes: string }>`select bytes from blobs where sha256 = ${sha256}`.execute(db),
          signal,
        );
        const bytes = Number(rows[0]?.bytes);
        return rows[0] && { bytes, pieces: partsOf(sha256, bytes) };
      } catch (error) {
        throw unreadable(error);
      }
    },

    async drop(sha256) {
      try {
        let end: "dropped" | "absent" | "young" = "absent";
        await apart(async (trx) => {
          const gone = await sql`
            delete from blobs where sha256 = ${sha256} and at < ${clock} - ${youngMs}::bigint`.execute(trx);
          const left = await sql`select 1 from blobs where sha256 = ${sha256}`.execute(trx);
          end = left.rows.length > 0 ? "young" : gone.numAffectedRows === 0n ? "absent" : "dropped";
        });
        return end;
      } catch (error) {
        throw unavailable(error);
      }
    },
  };
};

/** The blobs in the database, as the source of a move to another place. The tables stay. */
export const fromDatabase = (db: Kysely<Tables>, kept: Blobs, remove: (sha256: string) => Promise<void>): Source => {
  const next = async (after: string): Promise<string | undefined> => {
    const { rows } = await sql<{ sha256: string }>`
      select sha256 from blobs where sha256 > ${after} order by sha256 limit 1`.execute(db);
    return rows[0]?.sha256;
  };
  return {
    name: "the database",
    isEmpty: async () => (await next("")) === undefined,
    async *all() {
      for (let sha256 = await next(""); sha256 !== undefined; sha256 = await next(sha256)) yield sha256;
    },
    get: (sha256) => kept.get(sha256),
    read: (sha256) => kept.read(sha256),
    remove,
  };
};
