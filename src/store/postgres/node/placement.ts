import { type RawBuilder, type SqlBool, sql } from "kysely";
import type { Client, ClientConfig } from "pg";
import { isMission, type Recorded, type StreamID } from "../../../domain/event.ts";
import { projectOf } from "../../../domain/state/project.ts";
import type { Head } from "../../sql/schema.ts";
import { type Configuration, type KnownDirectory, lostMs, type Offer, type Placed, type Terms } from "../../node.ts";
import { openClient, schemaBounds } from "../connection.ts";
import { clock } from "../lease.ts";
import type { Trx } from "../outcome.ts";
import { sessionTables } from "./session.ts";
import { squadTables } from "./squad.ts";

/**
 * Which node has the files of a stream, and so runs it. Of a directory it is the one that the stream was begun on; of a
 * repository by address the one that took it up first, and none before. The row is written in the commit that makes the
 * stream, and outlives the stream until that node has removed its files.
 */

const tables = [
  `create table if not exists nodes (
     name text primary key, instance text not null, host text not null, process integer not null, folder text not null,
     version text not null, started bigint not null, seen bigint not null, stopped boolean not null, about text not null)`,
  `create table if not exists placements (
     stream text primary key, node text not null, erased boolean not null default false)`,
  "alter table placements add column if not exists movable boolean not null default false",
  // What whoever takes it up is to have; null: nothing that is known.
  "alter table placements add column if not exists configuration text, add column if not exists tier integer, add column if not exists browser boolean",
  `create table if not exists directories (
     path text not null, node text not null, project text not null, git boolean not null, url text, ref text,
     primary key (path, node))`,
  "create table if not exists leftovers (stream text not null, node text not null, primary key (stream, node))",
  "create table if not exists node_drains (name text primary key)",
  "create table if not exists node_keys (id integer primary key, key text not null)",
  ...squadTables,
  ...sessionTables,
  "create index if not exists placements_erased on placements (node) where erased",
];

/** Makes the tables where they are not. Older versions do not mind them. */
export const prepareNodes = async (run: (text: string) => Promise<unknown>): Promise<void> => {
  // Two that create one at once clash; then it is there.
  for (const table of tables) await run(table).catch(() => run(table));
};

/** Whether something at work is of no node yet, as from before there were any. */
export const hasUnadopted = async (client: Client): Promise<boolean> => {
  const { rows: made } = await client.query<{ made: string | null }>("select to_regclass('streams')::text as made");
  if (made[0]?.made == null) return false;
  const { rows } = await client.query(
    `select 1 from streams where lifecycle = 'active'
        and not exists (select 1 from placements where placements.stream = streams.stream) limit 1`,
  );
  return rows.length > 0;
};

/** What no node has, as from before there were any, becomes this node's. */
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

/** What nodes of other names had is of this one. Done again after a kill, it goes on. */
export const rename = async (config: ClientConfig, from: readonly string[], to: string): Promise<void> => {
  // Of a large log it takes long.
  const client = await openClient(config, schemaBounds);
  try {
    const values = [[...from], to];
    await client.query("begin");
    for (const text of [
      "update placements set node = $2 where node = any($1)",
      `insert into directories (path, node, project, git, url, ref)
       select distinct on (path) path, $2::text, project, git, url, ref from directories where node = any($1)
       on conflict do nothing`,
      "insert into leftovers (stream, node) select distinct stream, $2::text from leftovers where node = any($1) on conflict do nothing",
    ])
      await client.query(text, values);
    for (const table of ["directories", "leftovers"])
      await client.query(`delete from ${table} where node = any($1)`, [[...from]]);
    await client.query("delete from nodes where name = any($1)", [[...from]]);
    await client.query("commit");
  } finally {
    await client.end().catch(() => {});
  }
};

/** The name of no node: of what none has taken up. */
const nobody = "";

/** Whether a node that is there begins what is due. */
const begins = sql<SqlBool>`(coalesce(nodes.about::json ->> 'role', 'all') <> 'api'
  and coalesce(nodes.about::json ->> 'draining', 'false') <> 'true')`;

/**
 * Whether any node may take up a stream that nobody holds: it is nobody's, or can be taken over from a node that is
 * lost or begins nothing. One that stopped in good order may come back within the time of a lease.
 */
const isFree = sql<SqlBool>`(placements.node = ${nobody} or placements.movable and not exists (
  select 1 from nodes where nodes.name = placements.node and nodes.seen >= ${clock} - ${lostMs} and ${begins}))`;

/** Whether a node has what a stream asks for; `lacking` says it in words. */
const fits = ({ configuration, tier, browser, hasSpace }: Offer): RawBuilder<SqlBool> => sql<SqlBool>`(
  ${hasSpace}::boolean and coalesce(placements.configuration = ${configuration && textOf(configuration)}::text, true)
    and coalesce(placements.tier >= ${tier}::integer, true)
    and (${browser}::boolean or placements.browser is not true))`;

/**
 * Whether a stream is this node's to run: its own, or one that any may take up and for which it has what is asked. To
 * end one (rank 0) nothing is needed.
 */
export const isHere = (node: string, offer: Offer | undefined): RawBuilder<SqlBool> => sql<SqlBool>`not exists (
  select 1 from placements where placements.stream = streams.stream and placements.node <> ${node}
     and not (${isFree} and (streams.rank = 0 or ${offer === undefined ? sql`true` : fits(offer)})))`;

/** In one order, so that the database can compare it. */
const textOf = ({ squads, permissions, providers, limits }: Configuration): string =>
  JSON.stringify({ squads, permissions, providers, limits });

/**
 * What a batch means for the placements. `movable`: any node may take it up. `node`: whose it is else, by default this
 * one's. `claimed`: this node has taken it up.
 */
export type Placing = {
  made: readonly (Omit<KnownDirectory, "node" | "host" | "isUp"> & {
    stream: StreamID;
    movable: boolean;
    node: string | undefined;
    path: string;
    terms: Terms | undefined;
  })[];
  claimed: readonly StreamID[];
  erased: readonly StreamID[];
};

/** The streams that the events begin. What makes a squad needs the files beside which the squad is to stand. */
export const madeIn = (events: readonly Recorded[]): Placing["made"] =>
  events.flatMap(({ type, stream, data }) => {
    if (type !== "task.created" && type !== "mission.created") return [];
    const { directory: path, repository, node } = data;
    const movable = repository !== undefined && !("production" in data && data.production !== undefined);
    const git = !("isolation" in data) || data.isolation === "worktree";
    const terms = "terms" in data ? data.terms : undefined;
    const about = { path, node, terms, project: projectOf(data), git };
    const named = repository === undefined ? null : { url: repository.url, ref: repository.ref };
    return [{ stream, movable, ...about, repository: named }];
  });

/** The streams that a claim was taken on. */
export const claimedIn = (after: ReadonlyMap<StreamID, Head>, before: ReadonlyMap<StreamID, Head>): StreamID[] =>
  [...after.values()].flatMap(({ stream, holder, epoch }) =>
    holder !== null && epoch !== before.get(stream)?.epoch ? [stream] : [],
  );

/** Writes down which streams are here, and which erased ones have files elsewhere. */
export const place = async (trx: Trx, node: string, { made, claimed, erased }: Placing): Promise<void> => {
  if (made.length > 0) await takeIn(trx, node, made);
  if (claimed.length > 0) {
    // What it has of an earlier time its run removes; what another one has, that one.
    await sql`delete from leftovers where stream = any(${[...claimed]}::text[]) and node = ${node}`.execute(trx);
    await sql`insert into leftovers (stream, node)
              select stream, node from placements
               where stream = any(${[...claimed]}::text[]) and movable and node not in (${node}, ${nobody})
              on conflict do nothing`.execute(trx);
    await sql`update placements set node = ${node}
               where stream = any(${[...claimed]}::text[]) and movable and node <> ${node}`.execute(trx);
  }
  if (erased.length === 0) return;
  await sql`delete from placements where stream = any(${[...erased]}::text[]) and node in (${node}, ${nobody})`.execute(
    trx,
  );
  await sql`update placements set erased = true where stream = any(${[...erased]}::text[])`.execute(trx);
};

/** A project of which something on a node is erased; `listed`: its name in list rows. */
type Left = { node: string; project: string; listed: string };

/** Where the streams are that a batch erases; asked while they are there. */
export const projectsOf = async (trx: Trx, erased: readonly StreamID[]): Promise<Left[]> => {
  if (erased.length === 0) return [];
  const { rows } = await sql<Left>`
    select distinct node, directories.project, rows.project as listed from placements
      join (select stream, project, summary from tasks union all select stream, project, summary from missions) as rows
        using (stream)
      join directories using (node)
     where stream = any(${[...erased]}::text[]) and path = rows.summary::json ->> 'directory' and node <> ${nobody}
  `.execute(trx);
  return rows;
};

/**
 * A directory in which a node has nothing any more is known as its no longer: it may be another node's, or gone with
 * it.
 */
export const forgetDirectories = async (trx: Trx, left: readonly Left[]): Promise<void> => {
  const on = (table: "tasks" | "missions", { node, listed }: Left) => sql`exists (
    select 1 from ${sql.ref(table)} join placements using (stream) where project = ${listed} and node = ${node})`;
  for (const one of left)
    await sql`
      delete from directories
       where node = ${one.node} and project = ${one.project} and not ${on("tasks", one)} and not ${on("missions", one)}`.execute(
      trx,
    );
};

const takeIn = async (trx: Trx, self: string, made: Placing["made"]): Promise<void> => {
  const rows = made.map(
    ({ stream, movable, node = self, terms }) =>
      sql`(${stream}, ${movable ? nobody : node}, ${movable}, ${terms === undefined ? null : textOf(terms)}, ${terms?.tier ?? null}::integer, ${terms?.browser ?? null}::boolean)`,
  );
  await sql`insert into placements (stream, node, movable, configuration, tier, browser) values ${sql.join(rows)} on conflict do nothing`.execute(
    trx,
  );
  const keep = async (given: Placing["made"], again: RawBuilder<unknown>): Promise<void> => {
    if (given.length === 0) return;
    const places = new Map(
      given.map(({ path, node = self, project, git, repository }) => {
        const whose = repository === null ? node : nobody;
        const row = sql`(${path}, ${whose}, ${project}, ${git}, ${repository?.url ?? null}, ${repository?.ref ?? null})`;
        return [`${whose} ${path}`, row];
      }),
    );
    await sql`insert into directories (path, node, project, git, url, ref) values ${sql.join([...places.values()])}
              on conflict (path, node) ${again}`.execute(trx);
  };
  // Whether there are commits only a Task says.
  await keep(
    made.filter(({ stream }) => !isMission(stream)),
    sql`do update set git = excluded.git where directories.git <> excluded.git`,
  );
  await keep(
    made.filter(({ stream }) => isMission(stream)),
    sql`do nothing`,
  );
};

/** Queries on placements for one node. */
export const createPlacements = (db: Trx, node: string) => ({
  /** Those of the streams that are on other nodes. */
  async elsewhere(streams: readonly StreamID[]): Promise<Map<StreamID, Placed>> {
    if (streams.length === 0) return new Map();
    const { rows } = await sql<{
      stream: StreamID;
      node: string;
      seen: number | null;
      gone: boolean | null;
      movable: boolean;
    }>`
      select stream, node, seen, movable, stopped or seen < ${clock} - ${lostMs} as gone
        from placements left join nodes on nodes.name = placements.node
       where stream = any(${[...streams]}::text[]) and node not in (${node}, ${nobody})`.execute(db);
    return new Map(
      rows.map(({ stream, node: name, seen, gone, movable }) => [
        stream,
        { node: name, seenAt: seen === null ? null : new Date(seen).toISOString(), isUp: gone === false, movable },
      ]),
    );
  },

  async directories(path: string): Promise<KnownDirectory[]> {
    const { rows } = await sql<{
      node: string;
      host: string | null;
      up: boolean;
      project: string;
      git: boolean;
      url: string | null;
      ref: string | null;
    }>`
      select node, host, coalesce(not stopped and seen >= ${clock} - ${lostMs}, false) as up, project, git, url, ref
        from directories left join nodes on nodes.name = node where path = ${path} order by node`.execute(db);
    return rows.map(({ node: whose, host, up, project, git, url, ref }) => ({
      node: whose === nobody ? null : whose,
      host,
      isUp: up,
      project,
      git,
      repository: url === null ? null : { url, ref },
    }));
  },

  async takers(): Promise<Map<string, Offer>> {
    const { rows } = await sql<{ name: string; about: string }>`
      select name, about from nodes
       where not stopped and seen >= ${clock} - ${lostMs} and ${begins} order by name`.execute(db);
    return new Map(rows.map(({ name, about }) => [name, offerOf(about)]));
  },

  async unplaced(streams: readonly StreamID[]): Promise<Map<StreamID, Terms | null>> {
    const { rows } = await sql<TermsRow>`
      select stream, configuration, tier, browser from placements
       where stream = any(${[...streams]}::text[]) and ${isFree}`.execute(db);
    return new Map(rows.map((row) => [row.stream, termsOf(row)]));
  },

  async untaken(): Promise<Map<StreamID, Terms | null>> {
    const { rows } = await sql<TermsRow>`
      select placements.stream, configuration, tier, browser from placements join streams using (stream)
       where due_at <= ${clock} and holder is null and movable and ${isFree} order by placements.stream limit 1000`.execute(
      db,
    );
    return new Map(rows.map((row) => [row.stream, termsOf(row)]));
  },

  /** At most a hundred. */
  async unneeded(): Promise<StreamID[]> {
    const { rows } = await sql<{ stream: StreamID }>`
      select stream from placements where erased and node = ${node}
      union select stream from leftovers where node = ${node} limit 100`.execute(db);
    return rows.map(({ stream }) => stream);
  },

  /** Their files are removed. */
  async removed(stream: StreamID): Promise<void> {
    await sql`delete from placements where stream = ${stream} and node = ${node} and erased`.execute(db);
    await sql`delete from leftovers where stream = ${stream} and node = ${node}`.execute(db);
  },
});

type TermsRow = { stream: StreamID; configuration: string | null; tier: number | null; browser: boolean | null };

const termsOf = ({ configuration, tier, browser }: TermsRow): Terms | null =>
  configuration === null
    ? null
    : { ...(JSON.parse(configuration) as Configuration), tier: tier ?? 3, browser: browser ?? false };

/** What a node says of itself. An older version says less, and takes whatever comes. */
const offerOf = (about: string): Offer => ({
  configuration: null,
  tier: 1,
  browser: true,
  hasSpace: true,
  ...(JSON.parse(about) as Partial<Offer>),
});
