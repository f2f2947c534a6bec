import { hostname } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import type { Client, ClientConfig } from "pg";
import { messageOf, StartError } from "../../../error.ts";
import type { Log } from "../../../log.ts";
import { type Bounds, configOf, openClient } from "../connection.ts";
import { clockSQL } from "../lease.ts";

/**
 * One live service per database: worktrees, long texts and in-place work are its data folder's, and another service
 * could do nothing right with them. A lock of the database, on a connection of its own, ends with the service; a row
 * beside it says whose it is.
 */
export type Ownership = AsyncDisposable & {
  /** Resolves when another service has the database: the connection was lost for so long that it could take it. */
  lost: Promise<StartError>;
};

type Options = { url: string; dataDir: string; instance: string; log: Log };

/** `silent`: milliseconds since the row was renewed. */
type Row = { instance: string; host: string; process: number; folder: string; renewed: number; silent: number };

const bounds: Bounds = { statement: 5_000, lock: 2_000 };

const renewMs = 5_000;
/** A service that was heard of so recently may live, though its connection has gone; it renews its row at once then. */
const freshMs = 15_000;
const hearMs = 2_000;
/** Who stops in good order has gone by then. */
const patienceMs = 1_000;
const againMs = 300;

const key = "hashtext('sortie'), hashtext('service ' || current_schema())";

const table = `
  create table if not exists live_service (
    id integer primary key, instance text not null, host text not null, process integer not null,
    folder text not null, renewed bigint not null)`;

const read = `select *, ${clockSQL} - renewed as silent from live_service where id = 1`;

const write = `
  insert into live_service (id, instance, host, process, folder, renewed) values (1, $1, $2, $3, $4, ${clockSQL})
  on conflict (id) do update set instance = excluded.instance, host = excluded.host, process = excluded.process,
         folder = excluded.folder, renewed = excluded.renewed`;

/** A connection of an earlier life of the same data folder, whose end the server has not noticed yet. */
const endHolder = `
  select pg_terminate_backend(pid) from pg_locks
   where locktype = 'advisory' and granted and pid <> pg_backend_pid()
     and database = (select oid from pg_database where datname = current_database())
     and classid = (hashtext('sortie')::bigint & 4294967295)::oid
     and objid = (hashtext('service ' || current_schema())::bigint & 4294967295)::oid`;

/** Throws `StartError` with exit code 75 while another service, with another data folder, has the database. */
export const ownDatabase = async (options: Options): Promise<Ownership> => {
  const { url, dataDir, instance, log } = options;
  const config = configOf(url);
  const self = [instance, hostname(), process.pid, dataDir];
  const closing = new AbortController();
  let client: Client | undefined = await begin(config, { instance, self });
  /** Wakes whoever waits for the next renewal. */
  let gone = new AbortController();
  const hear = (own: Client): void => {
    gone = new AbortController();
    const drop = () => {
      if (client === own) client = undefined;
      gone.abort();
    };
    own.on("error", drop);
    own.on("end", drop);
  };
  hear(client);

  /** Resolves to false if another service has the database. */
  const renew = async (): Promise<boolean> => {
    const own = client ?? (await openClient(config, bounds));
    try {
      // First of all: who waits for a sign of this service is answered by it.
      const { rowCount } = await own.query(
        `update live_service set renewed = ${clockSQL} where id = 1 and instance = $1`,
        [instance],
      );
      if (rowCount === 0) return false;
      if (own === client || !(await locks(own))) return true;
      client = own;
      hear(own);
      log.info({}, "the connection that holds the database is back");
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
      const wake = AbortSignal.any([closing.signal, gone.signal]);
      const ms = client === undefined ? againMs : renewMs;
      await pause(ms, undefined, { signal: client === undefined ? closing.signal : wake, ref: false }).catch(() => {});
      if (closing.signal.aborted) return;
      try {
        if (await renew()) continue;
        loseTo(new StartError(75, "Another service has taken the database while this one could not reach it."));
        return;
      } catch (error) {
        log.debug({ error: messageOf(error) }, "the row of this service could not be renewed");
        const broken = client;
        client = undefined;
        await broken?.end().catch(() => {});
      }
    }
  };
  const keeping = keep();
  return {
    lost,
    async [Symbol.asyncDispose]() {
      closing.abort();
      await keeping;
      await client?.query("delete from live_service where id = 1 and instance = $1", [instance]).catch(() => {});
      await client?.end().catch(() => {});
    },
  };
};

/** Holds the lock together with others, each of which is one of several; false: a sole service has it. */
export const locksShared = async (client: Client): Promise<boolean> =>
  (await client.query<{ got: boolean }>(`select pg_try_advisory_lock_shared(${key}) as got`)).rows[0]?.got === true;

const locks = async (client: Client): Promise<boolean> =>
  (await client.query<{ got: boolean }>(`select pg_try_advisory_lock(${key}) as got`)).rows[0]?.got === true;

/** A connection that holds the lock, with the row written. */
const begin = async (config: ClientConfig, own: { instance: string; self: unknown[] }): Promise<Client> => {
  let client: Client | undefined;
  try {
    client = await openClient(config, bounds);
    await take(client, own);
    return client;
  } catch (error) {
    await client?.end().catch(() => {});
    if (error instanceof StartError) throw error;
    throw new StartError(69, `PostgreSQL could not be used: ${messageOf(error)}. Check SERVICE_DATABASE_URL.`);
  }
};

const take = async (client: Client, { instance, self }: { instance: string; self: unknown[] }): Promise<void> => {
  const known = async (): Promise<Row | undefined> => (await client.query<Row>(read)).rows[0];
  // Two that create it at once clash; then it is there.
  await client.query(table).catch(() => client.query(table));
  const until = performance.now() + patienceMs;
  while (!(await locks(client))) {
    const row = await known();
    // This process has the lock of the folder.
    if (row?.instance === instance) await client.query(endHolder);
    else if (performance.now() > until) throw refused(row);
    await pause(againMs);
  }
  const before = await known();
  if (before !== undefined && before.instance !== instance && before.silent < freshMs) {
    const hearUntil = performance.now() + hearMs;
    while (performance.now() < hearUntil) {
      await pause(againMs);
      const row = await known();
      // It has stopped in good order.
      if (row === undefined) break;
      if (row.renewed !== before.renewed) throw refused(row);
    }
  }
  await client.query(write, self);
};

const refused = (row: Row | undefined): StartError => {
  const who =
    row === undefined
      ? ""
      : `: process ${row.process} on ${row.host} with the data folder ${row.folder}, last heard of ${Math.round(row.silent / 1000)} s ago`;
  return new StartError(
    75,
    `Another service uses this database${who}. Stop it, or start this one with that data folder, or with another database (SERVICE_DATABASE_URL).`,
  );
};
