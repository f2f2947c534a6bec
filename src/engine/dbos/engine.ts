import { AsyncLocalStorage } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import type { Pool } from "pg";
import type { StreamID } from "../../domain/event.ts";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import { commitBounds, configOf, openPool, shareOf } from "../../store/postgres/connection.ts";
import { againMs, tryLock } from "../../store/postgres/node/held-lock.ts";
import { startErrorOf } from "../../store/postgres/node/not-started.ts";
import type { DueStream, Store } from "../../store/store.ts";
import type { Engine } from "../engine.ts";
import { createLocalEngine, type LocalEngineOptions } from "../in-process.ts";
import { cleanRows, executorID } from "./clean.ts";
import { freeLibrary, type Library, takeLibrary } from "./library.ts";

/**
 * The engine of several nodes: DBOS Transact on the PostgreSQL of the store. There is one workflow without steps,
 * `look`, whose input is a stream. A node with room begins due streams at once, each as a workflow of its own. Streams
 * for which it has no room go to a queue, the one of all nodes or its own, from which any listening node with room
 * takes them. The due times in the store stay the truth: a job that is lost, doubled, late or out of order changes
 * nothing, because every run begins with a claim and from the log.
 */

type Options = Omit<LocalEngineOptions, "store" | "overflow" | "carry"> & {
  store: Pick<Store, "due" | "nextDue"> & {
    nodes?: { unplaced(streams: readonly StreamID[]): Promise<{ has(stream: StreamID): boolean }> };
  };
  /**
   * The address of the database itself, not of a pooler. The tables of DBOS have a schema of their own, named after the
   * database's current schema.
   */
  url: string;
  /** The name of this node. */
  node: string;
  /** The names of the nodes that were seen lately. */
  living: () => Promise<readonly string[]>;
  /** The time between two polls of a queue, in milliseconds. */
  pollMs?: number;
};

/** Names that an operator sees in DBOS's tools. */
const application = "sortie";
/** Equal in all versions of the service, so that they take each other's jobs. */
const jobVersion = "1";
const anyQueue = "sortie";
const queueOf = (node: string): string => `sortie node ${node}`;
const schemaBeside = (schema: string): string => (schema === "public" ? "dbos" : `${schema}_dbos`);

const cleanMs = 10 * 60_000;
/** How long DBOS may take to write its last rows. */
const closeMs = 3_000;
/** Longer than any drain, because the service itself ends what drains too long. */
const drainMs = 24 * 3_600_000;
/** With more jobs than this, the record of queued jobs is cleared. */
const mostJobs = 10_000;

/** DBOS's priorities have 31 bits, smallest first: in seconds since 2020 they last until 2088. */
const priorityOf = (rank: number): number =>
  Math.min(2 ** 31 - 1, Math.max(0, Math.round((rank - Date.parse("2020-01-01T00:00:00Z")) / 1000)));

export const createDbosEngine = async (options: Options): Promise<Engine> => {
  const { store, url, node, living, log, pollMs = 500, maxRunning } = options;
  const lastMs = Math.min(closeMs, options.shutdownMs ?? closeMs);
  const self = executorID(node, randomUUID());
  /** Runs a function outside of any workflow that the caller is in. */
  const outside = AsyncLocalStorage.snapshot();
  const pool = openPool({ ...configOf(url), ...shareOf("engine") }, commitBounds, log);
  const library = takeLibrary();
  let tables = "dbos";
  /** Takes nothing more out of the queues. Running workflows have `ms` milliseconds to end. */
  const close = async (ms: number): Promise<void> => {
    let bound: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      bound = setTimeout(resolve, ms + closeMs).unref();
    });
    await Promise.race([library.shutdown({ workflowCompletionTimeoutMS: ms, deregister: true }), late]).catch(
      (error: unknown) => log.warn({ error: messageOf(error) }, "the engine did not stop cleanly"),
    );
    clearTimeout(bound);
    await Promise.race([pool.end(), late]);
    freeLibrary(library);
  };

  /** The work of each workflow of this process, by the workflow's id, until it begins. */
  const works = new Map<string, () => Promise<void>>();
  const look = library.registerWorkflow(
    async (stream: StreamID): Promise<void> => {
      const id = library.workflowID ?? "";
      const work = works.get(id);
      works.delete(id);
      // An error of a run is not thrown here, so that nothing of it is written into DBOS's tables.
      await outside(() => (work === undefined ? core.take(stream) : work())).catch((error: unknown) =>
        log.debug({ stream, error: messageOf(error) }, "a stream could not be checked"),
      );
    },
    { name: "look" },
  );

  const core = createLocalEngine({
    ...options,
    async carry(stream, work, signal) {
      const id = randomUUID();
      const done = Promise.withResolvers<void>();
      works.set(id, async () => {
        await work().then(done.resolve, done.reject);
      });
      // While the database is away, DBOS retries for ever. A run that is told to stop meanwhile has not begun.
      const stop = () => {
        if (works.delete(id)) done.resolve();
      };
      signal.addEventListener("abort", stop, { once: true });
      outside(() => library.startWorkflow(look, { workflowID: id })(stream)).catch((error: unknown) => {
        if (works.delete(id)) done.reject(error);
      });
      await done.promise;
      signal.removeEventListener("abort", stop);
    },
    overflow: (rows) => void enqueue(rows),
  });

  /** The newest due time of each stream that this node put into a queue. */
  let jobs = new Map<StreamID, { seq: number; until: number }>();
  const forgetMs = 30_000;
  let enqueuing: Promise<void> | undefined;
  const enqueue = (rows: readonly DueStream[]): Promise<void> =>
    (enqueuing ??= outside(() => put(rows))
      .catch((error: unknown) => log.debug({ error: messageOf(error) }, "what is due could not be put into a queue"))
      .finally(() => {
        enqueuing = undefined;
      }));
  const put = async (rows: readonly DueStream[]): Promise<void> => {
    const now = performance.now();
    const fresh = rows.filter(({ stream, seq }) => {
      const known = jobs.get(stream);
      return known === undefined || known.seq !== seq || known.until < now;
    });
    if (fresh.length === 0) return;
    if (jobs.size > mostJobs) jobs = new Map();
    const free = (await store.nodes?.unplaced(fresh.map(({ stream }) => stream))) ?? new Set();
    for (const { stream, seq, due } of fresh) {
      const queueName = free.has(stream) ? anyQueue : queueOf(node);
      jobs.set(stream, { seq, until: now + forgetMs });
      await library
        .startWorkflow(look, {
          queueName,
          enqueueOptions: { deduplicationID: stream, priority: priorityOf(due.rank) },
        })(stream)
        .catch((error: unknown) => {
          if ((error as Error).name !== "DBOSQueueDuplicatedError") throw error;
        });
    }
  };

  try {
    const { rows } = await pool.query<{ schema: string }>("select current_schema() as schema");
    tables = schemaBeside(rows[0]?.schema ?? "public");
    library.setConfig({
      name: application,
      systemDatabaseUrl: url,
      systemDatabasePool: pool,
      systemDatabaseSchemaName: tables,
      executorID: self,
      applicationVersion: jobVersion,
      listenQueues: [anyQueue, queueOf(node)],
      maxConcurrentQueueDispatches: 2,
      useListenNotify: false,
      logger: logTo(log),
    });
    await launch(library, tables, pool);
    const settings = {
      workerConcurrency: maxRunning,
      minPollingIntervalMs: pollMs,
      onConflict: "always_update",
    } as const;
    await library.registerQueue(anyQueue, settings);
    await library.registerQueue(queueOf(node), { ...settings, minPollingIntervalMs: 2 * pollMs });
  } catch (error) {
    await close(0);
    throw startErrorOf(error);
  }

  const clean = async (): Promise<void> => {
    await cleanRows(library, pool, { schema: tables, self, living: await living() }).catch((error: unknown) =>
      log.warn({ error: messageOf(error) }, "old rows of the engine could not be removed"),
    );
  };
  let cleaning = clean();
  const timer = setInterval(() => {
    cleaning = cleaning.then(clean);
  }, cleanMs);
  timer.unref();

  let closing: Promise<void> | undefined;
  return {
    ...core,
    connections: () => pool.totalCount,
    async drain(until) {
      const drained = core.drain(until);
      clearInterval(timer);
      await cleaning;
      // From now on, what is in the queues is for other nodes.
      closing ??= close(drainMs);
      await drained;
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await core[Symbol.asyncDispose]();
      await enqueuing;
      await cleaning;
      await Promise.race([(closing ??= close(lastMs)), pause(lastMs + closeMs, undefined, { ref: false })]);
    },
  };
};

/**
 * How long to wait for another node that launches: a node that is suspended while it launches would hold up all others.
 */
const launchMs = 60_000;

/**
 * Nodes launch one after the other: at once, they would make the same tables and block each other until PostgreSQL ends
 * them. The lock is polled, because a session that waits for it would hold up the indexes that its holder makes.
 */
const launch = async (library: Library, tables: string, pool: Pool) => {
  const client = await pool.connect();
  try {
    const key = { kind: "sortie launch", name: "$1", values: [tables] };
    for (const until = performance.now() + launchMs; !(await tryLock(client, key)) && performance.now() < until; )
      await pause(againMs);
    const create = () => pool.query(`create schema if not exists "${tables}"`);
    await create().catch(create);
    for (let tries = 1; ; tries += 1)
      try {
        await library.launch();
        return;
      } catch (error) {
        if (tries === 3) throw error;
        await library.shutdown();
        await pause(200 * tries);
      }
  } finally {
    // Closing the connection releases the lock.
    client.release(true);
  }
};

/** DBOS's own log lines only help in finding an error of DBOS. */
const logTo = (log: Log) => {
  const line = (entry: unknown): string => (entry instanceof Error ? messageOf(entry) : String(entry));
  return {
    debug: () => {},
    info: (entry: unknown) => log.debug({ dbos: line(entry) }, "engine"),
    warn: (entry: unknown) => log.debug({ dbos: line(entry) }, "engine"),
    error: (entry: unknown) => log.warn({ dbos: line(entry) }, "engine"),
  };
};
