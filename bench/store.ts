import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { silent } from "../src/log.ts";
import { createPostgresStore } from "../src/store/postgres/postgres.ts";
import { createSqliteStore } from "../src/store/sqlite/sqlite.ts";
import { fill, type Filled, postgresSink, type Sink, sqliteSink } from "../test/harness/large/fill.ts";
import { freshDatabase, keptDatabase, postgresURL } from "../test/harness/postgres.ts";
import { makeProject } from "../test/harness/project.ts";
import { drain, listen } from "./client.ts";
import { type Bench, type Figure, pause } from "./figure.ts";
import { type Listener, startService } from "./service.ts";
import type { Row } from "./table.ts";

/**
 * Every reading route of a service over a large log beside one over a small one, on each database that answers here: p99
 * of one client, and its ratio, which is what a log may cost that grows. Two logs of 10,000 and 100,000 Tasks;
 * BENCH_TASKS=1000000 sets the larger one, which takes twenty minutes to fill, and 51 GB of disk. With BENCH_LOGS=folder the logs
 * stay, in the folder and in databases named `sortie_bench_…`, and the next run has them.
 */

const larger = Number(process.env["BENCH_TASKS"] ?? 100_000);
const smaller = 10_000;
const logs = process.env["BENCH_LOGS"];

type Place = {
  kind: string;
  service: Listener;
  filled: Filled;
  startMs: number;
  [Symbol.asyncDispose](): Promise<void>;
};

const filledWith = async (sink: Sink, tasks: number, first: string): Promise<Filled> => {
  await using open = sink;
  return await fill(open, { tasks, turns: 1000, first });
};

/** The largest project of all logs. */
const projectIn = (bench: Bench): string => {
  if (logs === undefined) return bench.project("store", "git");
  const path = join(logs, "project");
  if (existsSync(path)) return path;
  mkdirSync(path, { recursive: true });
  return makeProject(path, { "a.txt": "one\n" });
};

/** What `make` fills; kept in the folder where logs stay. */
const filledIn = async (dataDir: string, make: () => Promise<Filled>): Promise<Filled> => {
  const note = join(dataDir, "filled.json");
  if (logs !== undefined && existsSync(note)) return JSON.parse(readFileSync(note, "utf8")) as Filled;
  const filled = await make();
  writeFileSync(note, JSON.stringify(filled));
  return filled;
};

/** Resolves when a service that was killed before has checked its file, which takes minutes for a large one: that is no part of a route. */
const checked = async (pid: number | undefined): Promise<void> => {
  const isChecking = (child: string): boolean => {
    try {
      return readFileSync(`/proc/${child}/cmdline`, "utf8").includes("integrity-check");
    } catch {
      return false;
    }
  };
  while (readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").some(isChecking)) await pause(500);
};

/** A service over such a log, in a place of its own. */
const open = async (bench: Bench, kind: "SQLite" | "PostgreSQL", tasks: number): Promise<Place> => {
  await using scope = new AsyncDisposableStack();
  const dataDir = join(logs ?? bench.root, `${kind.toLowerCase()}-${tasks}`);
  mkdirSync(dataDir, { recursive: true });
  if (logs === undefined) scope.defer(() => rmSync(dataDir, { recursive: true, force: true }));
  const project = projectIn(bench);
  const env: Record<string, string> = {};
  let filled: Filled;
  if (kind === "SQLite") {
    const file = join(dataDir, "sortie.db");
    filled = await filledIn(dataDir, async () => {
      await (await createSqliteStore({ file, dataDir, log: silent }))[Symbol.asyncDispose]();
      return filledWith(sqliteSink(file), tasks, project);
    });
  } else {
    const { url } =
      logs === undefined
        ? scope.use(await freshDatabase(postgresURL ?? "", {}))
        : await keptDatabase(postgresURL ?? "", `sortie_bench_${tasks}`);
    filled = await filledIn(dataDir, async () => {
      await (await createPostgresStore({ url, dataDir, log: silent }))[Symbol.asyncDispose]();
      return filledWith(await postgresSink(url, "public"), tasks, project);
    });
    env["SERVICE_DATABASE_URL"] = url;
  }
  const service = scope.use(await startService({ dataDir, baseURL: bench.baseURL, env }));
  await checked(service.child.pid);
  const held = scope.move();
  return { kind, service, filled, startMs: service.coldMs, [Symbol.asyncDispose]: () => held.disposeAsync() };
};

const routesOf = ({ filled, service }: Place, project: string): [name: string, read: () => Promise<unknown>][] => {
  const own = `directory=${encodeURIComponent(project)}`;
  const { long, mission, events } = filled;
  const get = (path: string) => () => drain(`${service.url}${path}`);
  const [tasks, missionPath] = [`/tasks?${own}`, `/mission/${mission.missionID}`];
  const behind = Math.max(0, events - 5000);
  return [
    ["GET /health", get("/health")],
    ["GET /projects", get("/projects")],
    ["GET /overview", get("/overview")],
    ["GET /tasks", get(tasks)],
    ["GET /tasks?status=running", get(`${tasks}&status=running`)],
    ["GET /tasks?missionID=", get(`${tasks}&missionID=${mission.missionID}`)],
    ["GET /tasks?metadata.ticket= (none)", get(`${tasks}&metadata.ticket=none`)],
    ["GET /tasks?search= (many)", get(`${tasks}&search=cents`)],
    ["GET /tasks?search= (none)", get(`${tasks}&search=zzqqxx`)],
    ["GET /missions", get(`/missions?${own}`)],
    ["GET /missions?search= (none)", get("/missions?search=zzqqxx")],
    ["GET /mission/{id}/status", get(`${missionPath}/status?${own}`)],
    ["GET /mission/{id}/events", get(`${missionPath}/events?format=json&after=0&${own}`)],
    ["GET /task/{id}/status", get(`/task/${long}/status`)],
    ["GET /task/{id}/board", get(`/task/${long}/board`)],
    ["GET /task/{id}/messages", get(`/task/${long}/messages?limit=50`)],
    ["GET /task/{id}/events", get(`/task/${long}/events?format=json&after=0&limit=50`)],
    ["GET /events of a project, from 0", get(`/events?format=json&after=0&limit=50&${own}`)],
    ["GET /events of a project, 5,000 behind", get(`/events?format=json&after=${behind}&limit=50&${own}`)],
    ["GET /task/{id}/events, first of a stream", () => firstOf(`${service.url}/task/${long}/events?after=0`)],
  ];
};

/** Resolves with the first event of a stream. */
const firstOf = async (url: string): Promise<void> => {
  const first = Promise.withResolvers<void>();
  using _stream = await listen(url, () => first.resolve());
  await first.promise;
};

const atRank = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)] ?? 0;

type Times = { p50: number; p99: number };

const none: Times = { p50: 0, p99: 0 };

/** One after the other and in turns, so that whatever else the machine does is in both. */
const timesOf = async (count: number, reads: readonly (() => Promise<unknown>)[]): Promise<Times[]> => {
  const times = reads.map((): number[] => []);
  for (let turn = -Math.min(10, count); turn < count; turn += 1)
    for (const [index, read] of reads.entries()) {
      const begun = performance.now();
      await read();
      if (turn >= 0) times[index]?.push(performance.now() - begun);
    }
  return times.map((own) => {
    own.sort((one, other) => one - other);
    return { p50: atRank(own, 0.5), p99: atRank(own, 0.99) };
  });
};

export const store: Figure = async (bench) => {
  const most = bench.quick ? 2000 : larger;
  const count = bench.quick ? 10 : 200;
  const project = projectIn(bench);
  const rows: Row[] = [];
  for (const kind of postgresURL === undefined ? (["SQLite"] as const) : (["SQLite", "PostgreSQL"] as const)) {
    await using few = await open(bench, kind, Math.min(smaller, most / 10));
    await using many = await open(bench, kind, most);
    rows.push({
      figure: `${kind}: start to /health`,
      unit: "ms",
      service: many.startMs,
      floor: few.startMs,
      ratio: many.startMs / few.startMs,
      note: `${many.filled.events} events beside ${few.filled.events}`,
    });
    const short = routesOf(few, project);
    for (const [index, [name, read]] of routesOf(many, project).entries()) {
      const [floor = none, service = none] = await timesOf(count, [short[index]?.[1] ?? read, read]);
      rows.push({
        figure: `${kind}: ${name}`,
        unit: "ms p99",
        service: service.p99,
        floor: floor.p99,
        ratio: service.p99 / floor.p99,
        goal: { kind: "timesFloor", value: 3 },
        note: `p50 ${service.p50.toFixed(1)} beside ${floor.p50.toFixed(1)}`,
      });
    }
  }
  return rows;
};
