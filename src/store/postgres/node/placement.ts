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
 * Which node has the files of a stream, and so runs it. A stream on a directory belongs to the node on which it was
 * begun; a stream on a repository by address belongs to the first node that takes it up, and to none before. The row is
 * written in the commit that makes the stream, and outlives the stream until that node has removed its files.
 */

const tables = [
  `create table if not exists nodes (
     name text primary key, instance text not null, host text not null, process integer not null, folder text not null,
     version text not null, started bigint not null, seen bigint not null, stopped boolean not null, about text not null)`,
  `create table if not exists placements (
     stream text primary key, node text not null, erased boolean not null default false)`,
  "alter table placements add column if not exists movable boolean not null default false",
  // What a node must have to take the stream up; null: nothing is known of it.
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

/** Creates the tables that are missing. Older versions ignore them. */
export const prepareNodes = async (run: (text: string) => Promise<unknown>): Promise<void> => {
  // Two services that create one at once clash; on the second try it exists.
  for (const table of tables) await run(table).catch(() => run(table));
};

/** Whether an active stream belongs to no node yet, as in a database from before there were nodes. */
export const hasUnadopted = async (client: Client): Promise<boolean> => {
  const { rows: made } = await client.query<{ made: string | null }>("select to_regclass('streams')::text as made");
  if (made[0]?.made == null) return false;
  const { rows } = await client.query(
    `select 1 from streams where lifecycle = 'active'
        and not exists (select 1 from placements where placements.stream = streams.stream) limit 1`,
  );
  return rows.length > 0;
};

/** Gives this node all streams that belong to none, as in a database from before there were nodes. */
export const adopt = async (config: ClientConfig, node: string): Promise<void> => {
  // This takes long for a large log.
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

/** Gives this node everything that belongs to nodes of other names. Can be repeated after a kill. */
export const rename = async (config: ClientConfig, from: readonly string[], to: string): Promise<void> => {
  // This takes long for a large log.
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

/** The name of no node: streams that none has taken up have it. */
const nobody = "";

/** Whether a node that is up begins what is due. */
const begins = sql<SqlBool>`(coalesce(nodes.about::json ->> 'role', 'all') <> 'api'
  and coalesce(nodes.about::json ->> 'draining', 'false') <> 'true')`;

/**
 * Whether any node may take up a stream on which no claim is held: it belongs to nobody, or it is movable and its node
 * is lost or begins nothing. A node that shut down cleanly may come back within the time of a lease.
 */
const isFree = sql<SqlBool>`(placements.node = ${nobody} or placements.movable and not exists (
  select 1 from nodes where nodes.name = placements.node and nodes.seen >= ${clock} - ${lostMs} and ${begins}))`;

/** Whether a node has what a stream asks for; `unmetTerms` gives the reasons in words. */
const fits = ({ configuration, tier, browser, hasSpace }: Offer): RawBuilder<SqlBool> => sql<SqlBool>`(
  ${hasSpace}::boolean and coalesce(placements.configuration = ${configuration && textOf(configuration)}::text, true)
    and coalesce(placements.tier >= ${tier}::integer, true)
    and (${browser}::boolean or placements.browser is not true))`;

/**
 * Whether a stream is this node's to run: its own, or one that any node may take up and for which it has what is asked.
 * To end a stream (rank 0), a node needs none of it.
 */
export const isHere = (node: string, offer: Offer | undefined): RawBuilder<SqlBool> => sql<SqlBool>`not exists (
  select 1 from placements where placements.stream = streams.stream and placements.node <> ${node}
     and not (${isFree} and (streams.rank = 0 or ${offer === undefined ? sql`true` : fits(offer)})))`;

/** Always in the same order, so that the database can compare the text. */
const textOf = ({ squads, permissions, providers, limits }: Configuration): string =>
  JSON.stringify({ squads, permissions, providers, limits });

/**
 * What a batch means for the placements. `movable`: any node may take the stream up. `node`: the node to which it
 * belongs otherwise; undefined: this one. `claimed`: the streams that this node has taken up.
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

/**
 * The streams that the events begin. A Task that makes a squad is not movable: it needs the files beside which the
 * squad will be installed.
 */
export const streamsBegunIn = (events: readonly Recorded[]): Placing["made"] =>
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

/** The streams on which a claim was taken. */
export const claimedIn = (after: ReadonlyMap<StreamID, Head>, before: ReadonlyMap<StreamID, Head>): StreamID[] =>
  [...after.values()].flatMap(({ stream, holder, epoch }) =>
    holder !== null && epoch !== before.get(stream)?.epoch ? [stream] : [],
  );

/** Records which streams are on this node, and which erased ones have files on other nodes. */
export const recordPlacements = async (trx: Trx, node: string, { made, claimed, erased }: Placing): Promise<void> => {
  if (made.length > 0) await takeIn(trx, node, made);
  if (claimed.length > 0) {
    // The run removes files that this node has from an earlier time; another node removes its own.
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

/** A project of which a node has a stream that is being erased; `listed`: the project's name in list rows. */
type Left = { node: string; project: string; listed: string };

/** The nodes and projects of the streams that a batch erases; call it before they are erased. */
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
 * A node is no longer known to own a directory in which it has nothing any more: the directory may be another node's,
 * or gone with the node.
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
  // Only a Task tells whether there are commits.
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

  /** Records that the stream's files are removed. */
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

/** What a node offers, by its report. An older version reports less, and takes up every Task. */
const offerOf = (about: string): Offer => ({
  configuration: null,
  tier: 1,
  browser: true,
  hasSpace: true,
  ...(JSON.parse(about) as Partial<Offer>),
});
