import type { PostgresPool } from "kysely";
import { Client, type ClientBase, type ClientConfig, DatabaseError, Pool, type PoolConfig, types } from "pg";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import { endsSession } from "./fault.ts";

/**
 * Connections to PostgreSQL. Each has a listener for its errors from its first moment to its last, since an error
 * without a listener ends the process; and each has our own bounds, whatever is set for the database, the user or the
 * server.
 */

/**
 * The purposes of a service's connections, and the most connections of each; their sum is the most that a service
 * opens. Commits have a connection of their own, since they go one after another, and must not wait behind reads.
 */
const shares = { commits: 1, reads: 3, "slow reads": 2, lease: 1, lock: 1, hints: 1, engine: 3 };

export type Purpose = keyof typeof shares;

export const mostConnections = Object.values(shares).reduce((sum, share) => sum + share, 0);
/** A service can work with one of each. */
export const leastConnections = Object.keys(shares).length;

/** For a pool or a client: the most connections that it opens, and the name by which the database lists them. */
export const shareOf = (purpose: Purpose) => ({ max: shares[purpose], application_name: `sortie ${purpose}` });

/** In milliseconds; 0: none. `statement`: for the whole statement. `lock`: for each wait for a lock. */
export type Bounds = { statement: number; lock: number };

/**
 * For a transaction that does nothing because its process is suspended or its host is gone. Its locks hold up all
 * others, so the database ends it.
 */
const idleTransaction = 5_000;

/** For commits and their reads. */
export const commitBounds: Bounds = { statement: 30_000, lock: 5_000 };
/** For reads that take longer the larger the log is. */
export const slowBounds: Bounds = { statement: 60_000, lock: 5_000 };
/** For changes of the schema, which rewrite tables. */
export const schemaBounds: Bounds = { statement: 0, lock: 60_000 };
/** For an index that is built while the service works: the build waits for all older transactions. */
export const indexBounds: Bounds = { statement: 0, lock: 0 };

/** Longest wait for a new connection, and for a free one of a pool whose connections are all in use. */
const connectMs = 5_000;
/** When a statement has exceeded its bound by this much, no answer will come: the server, or the way to it, is gone. */
const graceMs = 5_000;

/** Reads 64-bit integers as numbers: positions and milliseconds stay far below 2^53. */
const numbers: PoolConfig["types"] = {
  getTypeParser: ((id: Parameters<typeof types.getTypeParser>[0], format?: "text") =>
    id === types.builtins.INT8 ? Number : types.getTypeParser(id, format)) as typeof types.getTypeParser,
};

/** `schema`: where the tables are, instead of the connection's default. */
export const configOf = (url: string, schema?: string): ClientConfig => ({
  connectionString: url,
  connectionTimeoutMillis: connectMs,
  application_name: "sortie",
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
  types: numbers,
  ...(schema === undefined ? {} : { options: `-c search_path=${schema}` }),
});

const withAnswerBound = (config: ClientConfig, { statement }: Bounds): ClientConfig =>
  statement === 0 ? config : { query_timeout: statement + graceMs, ...config };

/** Sets a connection's bounds. */
export const applyBounds = async (client: ClientBase, { statement, lock }: Bounds): Promise<void> => {
  // Thanks to the keepalives, the server notices within half a minute that this host is gone, and ends what it held.
  // The first setting is a statement of its own, since the bound set for the database applies until it takes effect.
  await client.query(`set statement_timeout = ${statement}`);
  await client.query(
    `set lock_timeout = ${lock};
     set idle_in_transaction_session_timeout = ${idleTransaction};
     set default_transaction_isolation = 'read committed';
     set tcp_keepalives_idle = 15; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3`,
  );
  // Not every server has these settings. No query here runs so long that compiling it would pay off, however expensive
  // the planner thinks it is with a large log.
  await client.query(
    `select set_config(name, case name when 'jit' then 'off' else '0' end, false) from pg_settings
      where name in ('idle_session_timeout', 'transaction_timeout', 'jit')`,
  );
};

/** A pool in which a connection that breaks disturbs no other. */
export const openPool = (config: PoolConfig, bounds: Bounds, log: Log): Pool => {
  const pool = new Pool({
    ...withAnswerBound(config, bounds),
    // The user of a connection learns of its end from the query. The pool waits for the promise, though its type does
    // not say so.
    onConnect(client: ClientBase): Promise<void> {
      client.on("error", () => {});
      return applyBounds(client, bounds);
    },
  });
  pool.on("error", (error) => log.warn({ error: messageOf(error) }, "an idle database connection broke"));
  return pool;
};

/** Opens a connection outside any pool. */
export const openClient = async (config: ClientConfig, bounds: Bounds): Promise<Client> => {
  const client = new Client(withAnswerBound(config, bounds));
  client.on("error", () => {});
  try {
    await client.connect();
    await applyBounds(client, bounds);
  } catch (error) {
    await client.end().catch(() => {});
    throw error;
  }
  return client;
};

/** The pool for Kysely, which returns every connection as if it were sound: broken ones are closed instead. */
export const discarding = (pool: Pool): PostgresPool => ({
  options: pool.options,
  end: () => pool.end(),
  async connect() {
    const client = await pool.connect();
    let broken = false;
    return {
      query: async (text: string, parameters: unknown[]) => {
        try {
          return await client.query(text, parameters);
        } catch (error) {
          broken ||= !(error instanceof DatabaseError) || endsSession(error);
          throw error;
        }
      },
      release: (destroy?: boolean) => client.release(broken || destroy === true),
    } as unknown as Awaited<ReturnType<PostgresPool["connect"]>>;
  },
});

/**
 * Asks the database, through another connection, to cancel the query that the client runs. Nothing happens if that
 * fails.
 */
export const cancelQuery = async (client: ClientBase, through: Pool): Promise<void> => {
  const { processID } = client as ClientBase & { processID: number | null };
  // If this fails, the query runs to its end.
  await through.query("select pg_cancel_backend($1)", [processID]).catch(() => {});
};
