import { Client } from "pg";
import { freshDatabase, postgresURL } from "../test/harness/postgres.ts";
import { type Caller, createCaller } from "./client.ts";
import { type Bench, type Figure, pause } from "./figure.ts";
import type { Listener } from "./service.ts";
import type { Row } from "./table.ts";

/**
 * Several services on one PostgreSQL beside one on SQLite, in one run: how many Tasks start and end in a second, what a Task
 * costs the database, and what nodes cost that have nothing to do. All share this machine's processors, so more nodes show
 * what they cost, not what they bring.
 */

const steps = 5;
/** Tasks under way, over all nodes. */
const concurrency = 12;
const idleMs = 5_000;

type Counters = { transactions: number; wal: number };
type Measured = { starts: number; tasks: number };

/** Round and round. */
const each = <T>(items: readonly T[], index: number): T => {
  const item = items[index % items.length];
  if (item === undefined) throw new Error("Expected at least one");
  return item;
};

const measure = async (bench: Bench, urls: readonly string[], count: number): Promise<Measured> => {
  await using scope = new AsyncDisposableStack();
  let began = 0;
  let last = 0;
  const callers: Caller[] = [];
  for (const [index, url] of urls.entries()) {
    // Each hears the events of all.
    const hear = ({ type }: { type: string }) => {
      if (type !== "run.started") return;
      began += 1;
      last = performance.now();
    };
    callers.push(scope.use(await createCaller(url, index === 0 ? hear : undefined)));
  }
  const folderOf = (index: number) => bench.project(`node-folder-${index}`, "plain");
  for (let index = 0; index < count; index += 1) folderOf(index);
  const run = async (index: number, request: string) => {
    const caller = each(callers, index);
    const options = { isolation: "directory" } as const;
    await caller.settled(await caller.create(folderOf(index), `${request} ${bench.id("nodes")}`, options));
  };
  await Promise.all(Array.from({ length: concurrency }, (_, index) => run(index, "bench shell 1")));

  let next = 0;
  let from = performance.now();
  const member = async () => {
    for (let index = next++; index < count; index = next++) await run(index, `bench shell ${steps}`);
  };
  await Promise.all(Array.from({ length: concurrency }, member));
  const tasks = (1000 * count) / (performance.now() - from);

  began = 0;
  from = performance.now();
  await Promise.all(Array.from({ length: count }, (_, index) => run(index, "bench shell 1")));
  return { starts: (1000 * began) / (last - from), tasks };
};

const counting = async (url: string) => {
  const client = new Client({ connectionString: url });
  await client.connect();
  return {
    /** The server counts a session's transactions a while later. */
    read: async (): Promise<Counters> => {
      await pause(1_500);
      const { rows } = await client.query<{ transactions: string; wal: string }>(
        `select (xact_commit + xact_rollback) as transactions, pg_current_wal_lsn() - '0/0'::pg_lsn as wal
           from pg_stat_database where datname = current_database()`,
      );
      return { transactions: Number(rows[0]?.transactions), wal: Number(rows[0]?.wal) };
    },
    [Symbol.asyncDispose]: () => client.end(),
  };
};

const onNodes = async (bench: Bench, nodes: number, count: number, beside: Measured): Promise<Row[]> => {
  await using database = await freshDatabase(postgresURL ?? "", {});
  await using scope = new AsyncDisposableStack();
  const services: Listener[] = [];
  for (let index = 0; index < nodes; index += 1) {
    const env = { SERVICE_DATABASE_URL: database.url, SERVICE_NODE: `n${index}` };
    services.push(scope.use(await bench.service(`node-${nodes}-${index}`, { env })));
  }
  await using counters = await counting(database.url);
  const idleFrom = performance.now();
  const before = await counters.read();
  await pause(idleMs);
  const idle = await counters.read();
  const idleSeconds = (performance.now() - idleFrom) / 1000 - 1.5;
  const idlePerNode = (idle.transactions - before.transactions) / idleSeconds / nodes;
  const measured = await measure(
    bench,
    services.map(({ url }) => url),
    count,
  );
  const after = await counters.read();
  const made = 2 * count + concurrency;
  const transactions = (after.transactions - idle.transactions) / made;
  const kilobytes = (after.wal - idle.wal) / made / 1024;
  const name = nodes === 1 ? "1 node" : `${nodes} nodes`;
  const note = `${transactions.toFixed(1)} transactions and ${kilobytes.toFixed(0)} KB of WAL a Task; idle: ${idlePerNode.toFixed(1)} transactions a second and node`;
  return [
    {
      figure: `${name}: ${count} Tasks x ${steps} shell`,
      unit: "tasks/s",
      service: measured.tasks,
      floor: beside.tasks,
      note,
    },
    { figure: `${name}: ${count} Tasks at once`, unit: "starts/s", service: measured.starts, floor: beside.starts },
  ].map((row) => ({ ...row, ratio: row.service / row.floor }));
};

export const nodes: Figure = async (bench) => {
  if (postgresURL === undefined) throw new Error("Expected a PostgreSQL (SERVICE_TEST_DATABASE_URL), found none");
  const count = bench.quick ? 24 : 120;
  const beside = await (async () => {
    await using service = await bench.service("nodes-sqlite");
    return await measure(bench, [service.url], count);
  })();
  const rows: Row[] = [];
  for (const several of bench.quick ? [1, 2] : [1, 2, 3, 6])
    rows.push(...(await onNodes(bench, several, count, beside)));
  return rows;
};
