import { type RawBuilder, type SqlBool, sql } from "kysely";
import type { ClientConfig } from "pg";
import type { StreamID } from "../../../domain/event.ts";
import type { Placed } from "../../node.ts";
import { openClient, schemaBounds } from "../connection.ts";
import { clock } from "../lease.ts";
import type { Trx } from "../outcome.ts";

/**
 * Which node has the files of a stream, and so runs it: the one that it was begun on. The row is written in the commit
 * that makes the stream, and outlives the stream until that node has removed its files.
 */

/** A node that was not heard of for so long is lost, in milliseconds; its claims end with it. */
export const lostMs = 10_000;

const tables = [
  `create table if not exists nodes (
     name text primary key, instance text not null, host text not null, process integer not null, folder text not null,
     version text not null, started bigint not null, seen bigint not null, stopped boolean not null, about text not null)`,
  `create table if not exists placements (
     stream text primary key, node text not null, erased boolean not null default false)`,
  "create table if not exists node_drains (name text primary key)",
  "create index if not exists placements_erased on placements (node) where erased",
];

/** Makes the tables where they are not. Older versions do not mind them. */
export const prepareNodes = async (run: (text: string) => Promise<unknown>): Promise<void> => {
  // Two that create one at once clash; then it is there.
  for (const table of tables) await run(table).catch(() => run(table));
};

/** What no node has, as from before there were any, becomes this node's. Only while no other node lives. */
export const adopt = async (config: ClientConfig, node: string): Promise<void> => {
  // Of a large log it takes long.
  const client = await openClient(config, schemaBounds);
  try {
    const { rows } = await client.query<{ made: string | null }>("select to_regclass('streams')::text as made");
    if (rows[0]?.made == null) return;
    await client.query(
      `insert into placements (stream, node)
       select stream, $1 from streams where not exists (select 1 from placements p where p.stream = streams.stream)
       on conflict do nothing`,
      [node],
    );
  } finally {
    await client.end().catch(() => {});
  }
};

/** Whether a stream is this node's to run, or nobody's. */
export const isHere = (node: string): RawBuilder<SqlBool> => sql<SqlBool>`not exists (
  select 1 from placements where placements.stream = streams.stream and placements.node <> ${node})`;

/** Writes down that new streams are here, and which erased ones have files elsewhere. */
export const place = async (
  trx: Trx,
  node: string,
  { made, erased }: { made: readonly StreamID[]; erased: readonly StreamID[] },
): Promise<void> => {
  if (made.length > 0)
    await sql`insert into placements (stream, node)
              select stream, ${node} from unnest(${made}::text[]) as stream on conflict do nothing`.execute(trx);
  if (erased.length === 0) return;
  await sql`delete from placements where stream = any(${erased}::text[]) and node = ${node}`.execute(trx);
  await sql`update placements set erased = true where stream = any(${erased}::text[])`.execute(trx);
};

/** Queries on placements for one node. */
export const createPlacements = (db: Trx, node: string) => ({
  /** Those of the streams that are on other nodes. */
  async elsewhere(streams: readonly StreamID[]): Promise<Map<StreamID, Placed>> {
    if (streams.length === 0) return new Map();
    const { rows } = await sql<{ stream: StreamID; node: string; seen: number | null; gone: boolean | null }>`
      select stream, node, seen, stopped or seen < ${clock} - ${lostMs} as gone
        from placements left join nodes on nodes.name = placements.node
       where stream = any(${[...streams]}::text[]) and node <> ${node}`.execute(db);
    return new Map(
      rows.map(({ stream, node: name, seen, gone }) => [
        stream,
        { node: name, seenAt: seen === null ? null : new Date(seen).toISOString(), isUp: gone === false },
      ]),
    );
  },

  /** Erased streams whose files are still here; at most a hundred. */
  async erased(): Promise<StreamID[]> {
    const { rows } = await sql<{ stream: StreamID }>`
      select stream from placements where erased and node = ${node} limit 100`.execute(db);
    return rows.map(({ stream }) => stream);
  },

  /** Their files are removed. */
  async removed(stream: StreamID): Promise<void> {
    await sql`delete from placements where stream = ${stream} and node = ${node} and erased`.execute(db);
  },
});
