import { hostname } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import type { Client, ClientBase, ClientConfig } from "pg";
import { messageOf, StartError } from "../../../error.ts";
import type { Log } from "../../../log.ts";
import { type Bounds, openClient, shareOf } from "../connection.ts";
import { startErrorOf } from "./not-started.ts";

/**
 * A lock of the database that a service holds for its whole life, on a connection of its own, so that the lock ends
 * with the service. A row names the holder, too, and is renewed, so that a service that lost its connection can still
 * be heard of.
 */
export type Held = AsyncDisposable & {
  /**
   * Resolves when another service has the lock: the connection was lost for so long that the other one could take it.
   */
  lost: Promise<StartError>;
  /** The connection, while there is one. */
  client: () => Client | undefined;
};

type Options = {
  config: ClientConfig;
  log: Log;
  /** Milliseconds between two renewals. */
  everyMs: number;
  /** Takes the lock for the first time, and writes the row. Throws `StartError` while another service has it. */
  take: (client: Client) => Promise<void>;
  /** Renews the row, which shows waiting services that this one is alive. False: the row is another service's. */
  renew: (client: Client) => Promise<boolean>;
  /** Takes the lock again after the connection broke. False: not yet, since the broken connection may still hold it. */
  lock: (client: Client) => Promise<boolean>;
  /** The last statement of a service that shuts down cleanly. */
  leave: (client: Client) => Promise<unknown>;
  /** Logged when the lock is held again. */
  back: string;
  /** Why this service ends when another one has the lock. */
  taken: string;
};

const bounds: Bounds = { statement: 5_000, lock: 2_000 };

/** Milliseconds between two attempts. */
export const againMs = 300;

/** Throws `StartError`: 75 while another service has the lock, 69 if the database cannot be used. */
export const holdLock = async (options: Options): Promise<Held> => {
  const { log, everyMs, take, renew, lock, leave, back, taken } = options;
  const config = { ...options.config, ...shareOf("lock") };
  const closing = new AbortController();
  let client: Client | undefined;
  /** Aborts the wait for the next renewal when the connection is lost. */
  let gone = new AbortController();
  const hold = (own: Client): void => {
    client = own;
    gone = new AbortController();
    const { signal } = gone;
    const drop = () => {
      if (client === own) client = undefined;
      if (signal === gone.signal) gone.abort();
    };
    own.on("error", drop);
    own.on("end", drop);
  };
  hold(await begin(config, take));

  /** Resolves to false if another service has the lock. */
  const again = async (): Promise<boolean> => {
    const own = client ?? (await openClient(config, bounds));
    try {
      if (!(await renew(own))) return false;
      if (own === client || !(await lock(own))) return true;
      hold(own);
      log.info({}, back);
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
      const wait =
        client === undefined
          ? { ms: againMs, signal: closing.signal }
          : { ms: everyMs, signal: AbortSignal.any([closing.signal, gone.signal]) };
      await pause(wait.ms, undefined, { signal: wait.signal, ref: false }).catch(() => {});
      if (closing.signal.aborted) return;
      try {
        if (await again()) continue;
        loseTo(new StartError(75, taken));
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
    client: () => client,
    async [Symbol.asyncDispose]() {
      closing.abort();
      await keeping;
      const own = client;
      if (own === undefined) return;
      await leave(own).catch(() => {});
      await own.end().catch(() => {});
    },
  };
};

/** Opens a connection, takes the lock on it, and writes the row. */
const begin = async (config: ClientConfig, take: Options["take"]): Promise<Client> => {
  let client: Client | undefined;
  try {
    client = await openClient(config, bounds);
    await take(client);
    return client;
  } catch (error) {
    await client?.end().catch(() => {});
    throw startErrorOf(error);
  }
};

/**
 * The two numbers of an advisory lock, as SQL: the hash of the text `kind`, and the hash of the expression `name`.
 * `values`: the parameters of `name`.
 */
export type LockKey = { kind: string; name: string; values?: readonly unknown[] };

export const numbersOf = ({ kind, name }: LockKey): string => `hashtext('${kind}'), hashtext(${name})`;

/** Resolves to whether the lock was free and is now held. `shared`: together with others that take it shared. */
export const tryLock = async (client: ClientBase, key: LockKey, shared = false): Promise<boolean> => {
  const { values = [] } = key;
  const take = shared ? "pg_try_advisory_lock_shared" : "pg_try_advisory_lock";
  const { rows } = await client.query<{ got: boolean }>(`select ${take}(${numbersOf(key)}) as got`, [...values]);
  return rows[0]?.got === true;
};

/** Ends the connection of an earlier process of the same data folder, whose end the server has not noticed yet. */
export const endHolder = async (client: Client, { kind, name, values = [] }: LockKey): Promise<void> => {
  await client.query(
    `select pg_terminate_backend(pid) from pg_locks
      where locktype = 'advisory' and granted and pid <> pg_backend_pid()
        and database = (select oid from pg_database where datname = current_database())
        and classid = (hashtext('${kind}')::bigint & 4294967295)::oid
        and objid = (hashtext(${name})::bigint & 4294967295)::oid`,
    [...values],
  );
};

/** The holder that a row names. `silent`: milliseconds since the row was renewed. */
export type Holder = { instance: string; host: string; process: number; folder: string; silent: number };

/** The columns of this service's row: instance, host, process and data folder. */
export const holderOf = (instance: string, dataDir: string) => [instance, hostname(), process.pid, dataDir] as const;

/** For a message: the holder that the row names; "": there is no row. */
export const describeHolder = (row: Holder | undefined): string =>
  row === undefined
    ? ""
    : `: process ${row.process} on ${row.host} with the data folder ${row.folder}, last heard of ${Math.round(row.silent / 1000)} s ago`;
