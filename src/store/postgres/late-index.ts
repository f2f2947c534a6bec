import { setTimeout as pause } from "node:timers/promises";
import type { Pool, PoolClient } from "pg";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import { createIndex, type Index, indexes } from "../sql/migration/index-set.ts";
import { cancelQuery, indexBounds, applyBounds } from "./connection.ts";

/**
 * Indexes of a log in use, built while the service runs: `create index concurrently` locks nobody out, and takes
 * minutes for a large log. One process at a time builds; the next one begins unfinished indexes anew. Meanwhile the
 * pool of slow reads lacks a connection, which is closed afterwards together with its lock and its bounds.
 */

const againMs = 30_000;

/** A log of fewer events gets its indexes in no time, so they need not be built concurrently. */
const large = 10_000;

/** Finds a part of a text by its trigrams. Without the extension that provides them, a search reads the texts. */
const search: Omit<Index, "by"> = { name: "texts_search", on: "texts", columns: "" };

export const buildIndexes = ({ pool, other, log }: { pool: Pool; other: Pool; log: Log }): AsyncDisposable => {
  const stop = new AbortController();
  let client: PoolClient | undefined;

  const run = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      try {
        client = await pool.connect();
        await applyBounds(client, indexBounds);
        if (await build(client, log, stop.signal)) return;
      } catch (error) {
        if (stop.signal.aborted) return;
        log.warn(
          { error: messageOf(error) },
          "an index could not be created; lists and searches take longer without it",
        );
      } finally {
        const own = client;
        client = undefined;
        own?.release(true);
      }
      await pause(againMs, undefined, { signal: stop.signal, ref: false }).catch(() => {});
    }
  };

  const running = run();
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      if (client !== undefined) await cancelQuery(client, other);
      await running;
    },
  };
};

/** Resolves to false if another process is building. */
const build = async (client: PoolClient, log: Log, signal: AbortSignal): Promise<boolean> => {
  const names = async (where = ""): Promise<Set<string>> => {
    const { rows } = await client.query<{ name: string }>(
      `select relname as name from pg_index join pg_class on pg_class.oid = indexrelid
        where relnamespace = current_schema()::regnamespace ${where}`,
    );
    return new Set(rows.map(({ name }) => name));
  };
  const missing = async () => {
    const [valid, all] = [await names("and indisvalid"), await names()];
    const trigrams = valid.has(search.name) ? undefined : await trigramsOf(client, log);
    const wanted: Omit<Index, "by">[] = indexes.filter(({ name }) => !valid.has(name));
    if (trigrams !== undefined) wanted.push({ ...search, columns: `text ${trigrams}` });
    const replaced = indexes.flatMap(({ replaces }) => (replaces !== undefined && all.has(replaces) ? [replaces] : []));
    return { wanted, replaced, broken: all.difference(valid) };
  };
  const isDone = ({ wanted, replaced }: Awaited<ReturnType<typeof missing>>) => wanted.length + replaced.length === 0;

  if (isDone(await missing())) return true;
  const { rows } = await client.query<{ got: boolean; position: number }>(
    "select pg_try_advisory_lock(hashtext('sortie'), hashtext('indexes ' || current_schema())) as got, position from log",
  );
  if (rows[0]?.got !== true) return false;
  const how = rows[0].position < large ? "" : "concurrently";
  // The previous holder of the lock may have built some of them.
  const { wanted, replaced, broken } = await missing();
  for (const index of wanted) {
    if (signal.aborted) return true;
    if (how !== "")
      log.info({ index: index.name }, "an index is being created; lists and searches may be slow until then");
    // A build that was cut short leaves an invalid index.
    if (broken.has(index.name)) await client.query(`drop index ${how} if exists ${index.name}`);
    const text = createIndex(index, how);
    await client.query(index.name === search.name ? text.replace(" (", " using gin (") : text);
  }
  for (const name of replaced) await client.query(`drop index ${how} if exists ${name}`);
  return true;
};

/** The operator class for trigrams; undefined: the extension is missing, and this user may not create it. */
const trigramsOf = async (client: PoolClient, log: Log): Promise<string | undefined> => {
  let refused: unknown;
  await client.query("create extension if not exists pg_trgm with schema public").catch((error: unknown) => {
    refused = error;
  });
  const { rows } = await client.query<{ schema: string }>(
    "select quote_ident(nspname) as schema from pg_extension join pg_namespace on pg_namespace.oid = extnamespace where extname = 'pg_trgm'",
  );
  if (rows[0] !== undefined) return `${rows[0].schema}.gin_trgm_ops`;
  log.info(
    { error: messageOf(refused) },
    "searches have no index: it needs the extension pg_trgm, which the owner of the database can create",
  );
  return undefined;
};
