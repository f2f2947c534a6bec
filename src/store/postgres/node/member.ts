import { hostname } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import type { Client, ClientConfig } from "pg";
import type { Clock } from "../../../clock.ts";
import { messageOf, StartError } from "../../../error.ts";
import type { Log } from "../../../log.ts";
import type { Node, NodeReport } from "../../node.ts";
import { unreadable } from "../../unavailable.ts";
import { type Bounds, configOf, openClient } from "../connection.ts";
import { clockSQL } from "../lease.ts";
import { locksShared } from "./owner.ts";
import { adopt, prepareNodes } from "./placement.ts";

/**
 * One of several services of a database: it has a name, which no other live one has, and says every two seconds that it
 * is there. A lock on the name ends with the connection; a row beside it says who has it. All of them hold the lock of a
 * sole service together, so that none of those comes between.
 */
export type Membership = AsyncDisposable & {
  /** Resolves when another service has the name or the database: the connection was lost for so long. */
  lost: Promise<StartError>;
  /** The database's clock, as far as this machine knows it: all nodes share it, however wrong their own are. */
  now: () => Date;
  /** What the next signs of life say. */
  report: (about: () => NodeReport) => void;
  /** All nodes that were there within the last day, by name. */
  nodes: () => Promise<Node[]>;
};

type Options = {
  url: string;
  name: string;
  dataDir: string;
  instance: string;
  version: string;
  clock: Clock;
  log: Log;
};

type Row = {
  name: string;
  instance: string;
  host: string;
  process: number;
  folder: string;
  version: string;
  started: number;
  seen: number;
  stopped: boolean;
  about: string;
};

const bounds: Bounds = { statement: 5_000, lock: 2_000 };

const beatMs = 2_000;
const againMs = 300;
/** Who stops in good order has gone by then. */
const patienceMs = 1_500;
/** A node that was not heard of for so long is lost: its leases are over, too. */
export const lostMs = 10_000;
const dayMs = 24 * 3_600_000;

const nothing: NodeReport = { running: 0, room: 0, diskFree: 0, tier: 0 };

const write = `
  insert into nodes (name, instance, host, process, folder, version, started, seen, stopped, about)
  values ($1, $2, $3, $4, $5, $6, ${clockSQL}, ${clockSQL}, false, $7)
  on conflict (name) do update set instance = excluded.instance, host = excluded.host, process = excluded.process,
         folder = excluded.folder, version = excluded.version, started = excluded.started, seen = excluded.seen,
         stopped = false, about = excluded.about`;

const beat = `update nodes set seen = ${clockSQL}, about = $3 where name = $1 and instance = $2 returning seen`;

const nameKey = "hashtext('sortie node'), hashtext($1 || ' ' || current_schema())";

/** The connection of an earlier life of the same data folder, whose end the server has not noticed yet. */
const endHolder = `
  select pg_terminate_backend(pid) from pg_locks
   where locktype = 'advisory' and granted and pid <> pg_backend_pid()
     and database = (select oid from pg_database where datname = current_database())
     and classid = (hashtext('sortie node')::bigint & 4294967295)::oid
     and objid = (hashtext($1 || ' ' || current_schema())::bigint & 4294967295)::oid`;

/** Throws `StartError` with exit code 75 while another live service has the name, or a sole service the database. */
export const joinDatabase = async (options: Options): Promise<Membership> => {
  const { url, name, dataDir, instance, version, clock, log } = options;
  const config = configOf(url);
  let about: () => NodeReport = () => nothing;
  let ahead = 0;
  const closing = new AbortController();
  let client: Client | undefined = await begin(config, options);

  const heard = (seen: number, sent: number): void => {
    ahead = seen - (sent + clock().getTime()) / 2;
  };
  const sent = clock().getTime();
  const { rows } = await client.query<{ seen: number }>(`select ${clockSQL} as seen`);
  heard(rows[0]?.seen ?? sent, sent);
  await client.query(write, [name, instance, hostname(), process.pid, dataDir, version, JSON.stringify(about())]);
  if (!(await othersLive(client, name))) await adopt(client, name);

  /** Resolves to false if another service has the name, or the database. */
  const renew = async (): Promise<boolean> => {
    const own = client ?? (await openClient(config, bounds));
    try {
      const sent = clock().getTime();
      const { rows: beaten } = await own.query<{ seen: number }>(beat, [name, instance, JSON.stringify(about())]);
      const [row] = beaten;
      if (row === undefined) return false;
      heard(row.seen, sent);
      if (own === client) return true;
      if (!(await locksShared(own)) || !(await locksName(own, name))) return true;
      client = own;
      log.info({}, "the connection that holds this node's name is back");
      return true;
    } finally {
      if (own !== client) await own.end().catch(() => {});
    }
  };

  let loseTo: (error: StartError) => void = () => {};
  const lost = new Promise<StartError>((resolve) => {
    loseTo = resolve;
  });
  const keep = async (): Promise<void> => {
    while (!closing.signal.aborted) {
      await pause(client === undefined ? againMs : beatMs, undefined, { signal: closing.signal, ref: false }).catch(
        () => {},
      );
      if (closing.signal.aborted) return;
      try {
        if (await renew()) continue;
        loseTo(
          new StartError(75, `Another service has taken the name ${name} while this one could not reach the database.`),
        );
        return;
      } catch (error) {
        log.debug({ error: messageOf(error) }, "this node could not say that it is there");
        const broken = client;
        client = undefined;
        await broken?.end().catch(() => {});
      }
    }
  };
  const keeping = keep();
  return {
    lost,
    now: () => new Date(Math.round(clock().getTime() + ahead)),
    report(given) {
      about = given;
    },
    async nodes() {
      try {
        if (client === undefined) throw new Error("the database cannot be reached");
        const { rows: found } = await client.query<Row & { now: number }>(
          `select *, ${clockSQL} as now from nodes where seen > ${clockSQL} - ${dayMs} order by name`,
        );
        return found.map((row) => nodeOf(row, row.now));
      } catch (error) {
        throw unreadable(error);
      }
    },
    async [Symbol.asyncDispose]() {
      closing.abort();
      await keeping;
      await client
        ?.query(`update nodes set stopped = true, seen = ${clockSQL} where name = $1 and instance = $2`, [
          name,
          instance,
        ])
        .catch(() => {});
      await client?.end().catch(() => {});
    },
  };
};

const nodeOf = ({ name, version, host, started, seen, stopped, about }: Row, now: number): Node => ({
  name,
  version,
  host,
  state: stopped ? "stopped" : now - seen > lostMs ? "lost" : "up",
  startedAt: new Date(started).toISOString(),
  seenAt: new Date(seen).toISOString(),
  ...nothing,
  ...(JSON.parse(about) as NodeReport),
});

const locksName = async (client: Client, name: string): Promise<boolean> =>
  (await client.query<{ got: boolean }>(`select pg_try_advisory_lock(${nameKey}) as got`, [name])).rows[0]?.got ===
  true;

const othersLive = async (client: Client, name: string): Promise<boolean> => {
  const { rows } = await client.query(
    `select 1 from nodes where name <> $1 and not stopped and seen > ${clockSQL} - ${lostMs}`,
    [name],
  );
  return rows.length > 0;
};

const begin = async (config: ClientConfig, options: Options): Promise<Client> => {
  let client: Client | undefined;
  try {
    client = await openClient(config, bounds);
    const own = client;
    await prepareNodes((text) => own.query(text));
    await take(client, options);
    return client;
  } catch (error) {
    await client?.end().catch(() => {});
    if (error instanceof StartError) throw error;
    throw new StartError(69, `PostgreSQL could not be used: ${messageOf(error)}. Check SERVICE_DATABASE_URL.`);
  }
};

const take = async (client: Client, { name, instance }: Options): Promise<void> => {
  const until = performance.now() + patienceMs;
  while (!(await locksShared(client))) {
    if (performance.now() > until)
      throw new StartError(
        75,
        "A service that was started without SERVICE_NODE uses this database alone. Stop it, or give it a name, too.",
      );
    await pause(againMs);
  }
  const known = async (): Promise<(Row & { silent: number }) | undefined> =>
    (
      await client.query<Row & { silent: number }>(
        `select *, ${clockSQL} - seen as silent from nodes where name = $1`,
        [name],
      )
    ).rows[0];
  while (!(await locksName(client, name))) {
    const row = await known();
    // This process has the lock of the folder.
    if (row?.instance === instance) await client.query(endHolder, [name]);
    else if (performance.now() > until) throw refused(name, row);
    await pause(againMs);
  }
  // One whose connection has gone may live all the same, and says so within the time of a lease.
  const row = await known();
  if (row !== undefined && row.instance !== instance && !row.stopped && row.silent < lostMs) throw refused(name, row);
};

const refused = (name: string, row: (Row & { silent: number }) | undefined): StartError => {
  const who =
    row === undefined
      ? ""
      : `: process ${row.process} on ${row.host} with the data folder ${row.folder}, last heard of ${Math.round(row.silent / 1000)} s ago`;
  return new StartError(
    75,
    `Another node of this database has the name ${name}${who}. Stop it, or give this one another name (SERVICE_NODE).`,
  );
};
