import { setTimeout as pause } from "node:timers/promises";
import type { Client } from "pg";
import { StartError } from "../../../error.ts";
import type { Log } from "../../../log.ts";
import { configOf } from "../connection.ts";
import { clockSQL } from "../lease.ts";
import {
  againMs,
  endHolder,
  type Held,
  type Holder,
  holderOf,
  holdLock,
  type LockKey,
  tryLock,
  describeHolder,
} from "./held-lock.ts";

/** One live service per database, if it is to have the database alone (`SERVICE_ENGINE=local`). */

type Options = { url: string; dataDir: string; instance: string; log: Log };

type Row = Holder & { renewed: number };

const renewMs = 5_000;
/** A service that was heard of so recently may live although its connection is lost; it then renews its row at once. */
const freshMs = 15_000;
const hearMs = 2_000;
/** A service that shuts down cleanly is gone by then. */
const patienceMs = 1_000;

/** The lock of a sole service. Nodes hold it together, so that no sole service can start among them. */
export const soleKey: LockKey = { kind: "sortie", name: "'service ' || current_schema()" };

const table = `
  create table if not exists live_service (
    id integer primary key, instance text not null, host text not null, process integer not null,
    folder text not null, renewed bigint not null)`;

const read = `select *, ${clockSQL} - renewed as silent from live_service where id = 1`;

/**
 * The first row is removed when the service ends. The second one stays, and tells nodes which data folder has the files
 * of streams that belong to no node.
 */
const write = `
  insert into live_service (id, instance, host, process, folder, renewed)
  select id, $1, $2, $3::integer, $4, ${clockSQL} from (values (1), (2)) as rows (id)
  on conflict (id) do update set instance = excluded.instance, host = excluded.host, process = excluded.process,
         folder = excluded.folder, renewed = excluded.renewed`;

const beat = `update live_service set renewed = ${clockSQL} where id = 1 and instance = $1`;

/** The instance of the data folder whose service was the last to have this database alone; undefined: none is known. */
export const lastOwner = async (client: Client): Promise<string | undefined> => {
  const { rows } = await client.query<{ made: string | null }>("select to_regclass('live_service')::text as made");
  if (rows[0]?.made == null) return undefined;
  const { rows: owners } = await client.query<Row>("select * from live_service where id = 2");
  return owners[0]?.instance;
};

/** Throws `StartError` with exit code 75 while a service with another data folder has the database. */
export const ownDatabase = ({ url, dataDir, instance, log }: Options): Promise<Held> =>
  holdLock({
    config: configOf(url),
    log,
    everyMs: renewMs,
    take: (client) => take(client, instance, dataDir),
    renew: async (client) => (await client.query(beat, [instance])).rowCount !== 0,
    lock: (client) => tryLock(client, soleKey),
    leave: (client) => client.query("delete from live_service where id = 1 and instance = $1", [instance]),
    back: "the connection that holds the database is back",
    taken: "Another service has taken the database while this one could not reach it.",
  });

const take = async (client: Client, instance: string, dataDir: string): Promise<void> => {
  const known = async (): Promise<Row | undefined> => (await client.query<Row>(read)).rows[0];
  // Two services that create it at once clash; on the second try it exists.
  await client.query(table).catch(() => client.query(table));
  const until = performance.now() + patienceMs;
  while (!(await tryLock(client, soleKey))) {
    const row = await known();
    // This process has the folder's lock, so the holder is an earlier process whose end the server has not noticed.
    if (row?.instance === instance) await endHolder(client, soleKey);
    else if (performance.now() > until) throw refused(row);
    await pause(againMs);
  }
  const before = await known();
  if (before !== undefined && before.instance !== instance && before.silent < freshMs) {
    const hearUntil = performance.now() + hearMs;
    while (performance.now() < hearUntil) {
      await pause(againMs);
      const row = await known();
      // It has shut down cleanly.
      if (row === undefined) break;
      if (row.renewed !== before.renewed) throw refused(row);
    }
  }
  await client.query(write, [...holderOf(instance, dataDir)]);
};

const refused = (row: Row | undefined): StartError =>
  new StartError(
    75,
    row === undefined
      ? "Other services share this database, and SERVICE_ENGINE=local is for its only one. Stop them, or unset SERVICE_ENGINE."
      : `Another service uses this database${describeHolder(row)}. Stop it, or start this one with that data folder, or with another database (SERVICE_DATABASE_URL).`,
  );
