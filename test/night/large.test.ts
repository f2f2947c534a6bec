import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import Database from "better-sqlite3";
import { describe, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { hash } from "../../src/store/sql/row.ts";
import { createSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import { messagesIn } from "../../src/task/query/message.ts";
import { fill, type Filled, sqliteSink } from "../harness/large/fill.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { makeProject, temporary } from "../harness/project.ts";
import { startService } from "../harness/service.ts";
import { backends, type Place } from "../harness/store.ts";
import { formOfBefore } from "../harness/large/form-of-before.ts";

/**
 * A log of 100,000 Tasks with one of 100,000 events (TEST_TASKS sets another number): what is asked of it holds up
 * nothing else. What each read took and the longest wait of anything else meanwhile are printed.
 */

const tasks = Number(process.env["TEST_TASKS"] ?? 100_000);
const turns = Math.ceil(tasks / 3);

/** The longest that anything may wait for the service's thread, in milliseconds. */
const longest = 50;

const watch = () => {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  return {
    /** The longest wait since the last call, in milliseconds. */
    async worst(): Promise<number> {
      await pause(20);
      const { max } = delay;
      delay.reset();
      // The first interval after a reset is not counted.
      await pause(10);
      return max / 1e6;
    },
    [Symbol.dispose]: () => void delay.disable(),
  };
};

/**
 * Runs each three times. `worst`: the longest wait of the best run, as what blocks does so each time, and a busy
 * machine does not.
 */
const measure = async (
  title: string,
  reads: readonly [name: string, read: () => Promise<unknown>][],
): Promise<{ atRest: number; found: { name: string; worst: number }[] }> => {
  using watching = watch();
  await watching.worst();
  await pause(2000);
  const atRest = await watching.worst();
  const lines = [`${title}; at rest ${atRest.toFixed(1)} ms`];
  const found: { name: string; worst: number }[] = [];
  for (const [name, read] of reads) {
    const runs: { ms: number; worst: number }[] = [];
    for (let turn = 0; turn < 3; turn += 1) {
      const begun = performance.now();
      await read();
      runs.push({ ms: performance.now() - begun, worst: await watching.worst() });
    }
    const worst = Math.min(...runs.map((run) => run.worst));
    found.push({ name, worst });
    const took = runs.map(({ ms }) => ms.toFixed(1).padStart(8)).join(" ");
    const waits = runs.map((run) => run.worst.toFixed(1).padStart(7)).join(" ");
    lines.push(`${name.padEnd(50)} took ${took} ms, longest wait ${waits} ms`);
  }
  console.log(lines.join("\n"));
  return { atRest, found };
};

/** Blocked longer than may be; at rest this machine's own noise is the measure where it is more. */
const tooLong = ({ atRest, found }: Awaited<ReturnType<typeof measure>>) =>
  found.filter(({ worst }) => worst > Math.max(longest, atRest));

const filledFile = async (file: string, first: string): Promise<Filled> => {
  await using sink = sqliteSink(file);
  return await fill(sink, { tasks, turns, first });
};

describe.each(backends.filter(({ name }) => name !== "SQLite :memory:"))("$name", ({ name, open }) => {
  test("no read of the store holds up anything", { timeout: 900_000 }, async () => {
    await using place: Place = await open();
    const filled = (await place.fillLog?.({ tasks, turns })) as Filled;
    const { store } = place;
    const [some, small] = [filled.directories[0], filled.directories.at(-1)].map(
      (directory) => `${directory}/.git`,
    ) as [string, string];
    const { events, mission, long } = filled;
    const list = (query: object) => () => store.list({ project: some, limit: 51, ...query });
    const measured = await measure(`${name}: ${filled.tasks} Tasks, ${events} events`, [
      ["projects", () => store.projects(50)],
      ["events of a project without any, from 0", () => store.since(0, 200, { project: "/nowhere" })],
      ["events of a small project, from 0", () => store.since(0, 200, { project: small })],
      ["events of a small project, half the log behind", () => store.since(events / 2, 200, { project: small })],
      ["events of the largest project, from 0", () => store.since(0, 200, { project: some })],
      ["events of a Mission, from 0", () => store.since(0, 200, { mission: mission.stream })],
      ["events of a type that there is none of", () => store.since(0, 200, { types: ["squad.refused"] })],
      ["list", list({})],
      ["list, running", list({ status: "running" })],
      ["list, cancelled: none", list({ lifecycleStatus: "cancelled" })],
      ["list, of a squad: none", list({ promptProfile: "none" })],
      ["list, of a Mission", list({ missionID: mission.missionID })],
      ["list, of a Mission: none", list({ missionID: "none" })],
      ["list, metadata: one", list({ metadata: { ticket: "T-7" } })],
      ["list, metadata: none", list({ metadata: { ticket: "none" } })],
      ["list, metadata: every third", list({ metadata: { team: "red" } })],
      ["list, search: none", list({ search: "no such words" })],
      ["list, search: many", list({ search: "cents" })],
      ["Missions, search: none", () => store.missions({ limit: 51, search: "no such words" })],
      ["messages of a long Task, first page", () => messagesIn(store, long, { after: 0, limit: 200, open: [] })],
      [
        "messages of a long Task, late page",
        () => messagesIn(store, long, { after: events - turns, limit: 200, open: [] }),
      ],
      ["one type of a long Task's events: none", () => store.read(long, { types: ["ask.opened"] })],
      ["places of 200 in the queue", () => store.places(Array.from({ length: 200 }, (_, n) => `task_${n}`))],
      ["orphaned blobs", () => store.orphans.markOrphans(long).then(() => store.orphans.find())],
      [
        "old deliveries and keys",
        () => store.webhooks.purge({ delivered: 1, keep: 1, rest: 1 }).then(() => store.forget(new Date(1))),
      ],
    ]);
    expect(tooLong(measured)).toEqual([]);
  });
});
if (postgresURL === undefined) countSkipped(1);

test("a service over an old log of SQLite answers all the while it learns what that names; control: reads of before do not let it", {
  timeout: 900_000,
}, async () => {
  using folder = temporary("sortie-large-");
  const project = makeProject(join(folder.path, "project"), { "a.txt": "a\n" });
  const dataDir = join(folder.path, "data");
  mkdirSync(dataDir);
  const file = join(dataDir, "sortie.db");
  await (await createSqliteStore({ file, dataDir, log: silent }))[Symbol.asyncDispose]();
  const filled = await filledFile(file, project);
  const database = new Database(file);
  database.exec(formOfBefore);
  database.exec(`insert into orphans values ('${"ab".repeat(32)}'); update log set clean = 0`);
  database.close();

  const opened = performance.now();
  const service = await startService(dataDir);
  console.log(`opened, copied and migrated in ${((performance.now() - opened) / 1000).toFixed(1)} s`);
  const directory = encodeURIComponent(project);
  const get = (path: string) => async () => {
    const answer = await fetch(`${service.url}${path}`);
    expect(answer.status, path).toBe(200);
    for await (const _ of answer.body ?? []);
  };
  const measured = await measure("over HTTP, while the file is checked and old events are looked through", [
    ["/health", get("/health")],
    ["/projects", get("/projects")],
    ["/events of the project, from 0", get(`/events?format=json&after=0&limit=1000&directory=${directory}`)],
    ["/events, from 0", get("/events?format=json&after=0&limit=1000")],
    ["/tasks", get(`/tasks?limit=200&directory=${directory}`)],
    ["/tasks, search: none", get(`/tasks?search=zzqqxx&directory=${directory}`)],
    ["/tasks, search: many", get(`/tasks?search=cents&limit=200&directory=${directory}`)],
    ["/tasks, metadata: none", get(`/tasks?metadata.ticket=none&directory=${directory}`)],
    ["/tasks, status=running", get(`/tasks?status=running&directory=${directory}`)],
    ["/tasks, missionID", get(`/tasks?missionID=${filled.mission.missionID}&directory=${directory}`)],
    ["/missions, search: none", get("/missions?search=zzqqxx")],
    [
      "/mission/…/events, from 0",
      get(`/mission/${filled.mission.missionID}/events?format=json&after=0&directory=${directory}`),
    ],
    ["/task/…/status of a long Task", get(`/task/${filled.long}/status`)],
    ["/task/…/board of a long Task", get(`/task/${filled.long}/board`)],
    ["/task/…/messages of a long Task", get(`/task/${filled.long}/messages?limit=1000`)],
    ["/task/…/events of a long Task", get(`/task/${filled.long}/events?format=json&after=0&limit=1000`)],
    [
      "thirty searches at once",
      () => Promise.all(Array.from({ length: 30 }, () => get(`/tasks?search=zzqqxx&directory=${directory}`)())),
    ],
  ]);
  expect(tooLong(measured)).toEqual([]);

  // The whole of it: until all old events are looked through and the orphan is dropped.
  const named = new Database(file, { readonly: true });
  const left = named.prepare<[], { left: number }>("select old - named as left from log");
  using watching = watch();
  await watching.worst();
  const waits: number[] = [];
  for (;;) {
    await pause(1000);
    waits.push(await watching.worst());
    if ((left.get()?.left ?? 0) === 0) break;
  }
  const usual = waits.toSorted((one, other) => one - other)[Math.floor(waits.length / 2)] ?? 0;
  console.log(
    `until all was looked through: longest wait in a second ${usual.toFixed(1)} ms, at worst ${Math.max(...waits).toFixed(1)}`,
  );
  expect(usual).toBeLessThan(Math.max(longest, measured.atRest));

  // Control: what was asked before, where it was asked.
  await watching.worst();
  const before = named.prepare(
    `select * from events where position > 0 and exists (select 1 from tasks where tasks.stream = events.stream and project = ?)
      order by position limit 200`,
  );
  // As often as the log has room for in 100,000 Tasks.
  for (let size = 0; size < 100_000; size += tasks) before.all(hash("/nowhere"));
  const control = await watching.worst();
  named.close();
  console.log(`control: ${control.toFixed(0)} ms`);
  expect(control).toBeGreaterThan(Math.max(longest, measured.atRest));
  const stopped = performance.now();
  await service.close();
  expect(performance.now() - stopped).toBeLessThan(5000);
  expect(readFileSync(join(dataDir, "instance"), "utf8")).not.toBe("");
});
