import { randomInt } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import Database from "better-sqlite3";
import { type CompiledQuery, Kysely, PostgresDialect, sql, SqliteDialect } from "kysely";
import { describe, expect, test, vi } from "vitest";
import { silent } from "../../src/log.ts";
import { configOf, openPool, slowBounds } from "../../src/store/postgres/connection.ts";
import { createReader as createPostgresReader } from "../../src/store/postgres/reader.ts";
import { readerOn } from "../../src/store/sql/reader.ts";
import type { Tables } from "../../src/store/sql/schema.ts";
import { createReader } from "../../src/store/sqlite/reader.ts";
import { messagesIn } from "../../src/task/query/message.ts";
import { created } from "../harness/events.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { temporary } from "../harness/project.ts";
import { backends, type Place } from "../harness/store.ts";
import { message } from "../fixtures/store/message.ts";
import { atRest } from "./at-rest.ts";
import { type Case, onEveryStore } from "./suite.ts";

/** Slow reads: where they run, that they hold up nothing, and what becomes of them when somebody or something goes. */

const open = async (): Promise<Place & { fillLog: NonNullable<Place["fillLog"]> }> => {
  const place = await backends[0]?.open();
  if (place?.fillLog === undefined) throw new Error("Expected a file");
  return place as Place & { fillLog: NonNullable<Place["fillLog"]> };
};

/** A database of its own with a reader; `slow` counts for so long that it takes a second or more. */
const openReader = (options: { idle?: number; broken?: (error: Error) => void } = {}) => {
  const folder = temporary("sortie-reader-");
  const file = `${folder.path}/s.db`;
  const database = new Database(file);
  database.pragma("journal_mode = WAL");
  database.exec("create table numbers (n integer)");
  const db = new Kysely<Tables>({ dialect: new SqliteDialect({ database }) });
  const reader = createReader({ file, log: silent, broken: () => {}, ...options });
  const count = (to: number): CompiledQuery<{ n: number }> =>
    sql<{ n: number }>`with recursive up (n) as (select 1 union all select n + 1 from up where n < ${to})
      select count(*) as n from up`.compile(db);
  return {
    file,
    database,
    db,
    reader,
    slow: count(6_000_000),
    quick: sql<{ one: number }>`select 1 as one`.compile(db),
    async [Symbol.asyncDispose]() {
      await reader[Symbol.asyncDispose]();
      database.close();
      folder[Symbol.dispose]();
    },
  };
};

/** The longest time in which nothing else ran, in milliseconds. */
const longestBlock = async (work: () => Promise<unknown>): Promise<number> => {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  await pause(20);
  await work();
  await pause(20);
  delay.disable();
  return delay.max / 1e6;
};

describe("SQLite", () => {
  test("a checkpoint is made apart: the next write begins the log anew; control: without one it goes on", async () => {
    await using own = openReader();
    const { database, reader, file } = own;
    database.pragma("wal_autocheckpoint = 0");
    const write = () => database.prepare("insert into numbers values (1)").run();
    /** How often the log beside the database was begun anew, as its header has it. */
    const begun = () => readFileSync(`${file}-wal`).readUInt32BE(12);
    for (let n = 0; n < 100; n += 1) write();
    const before = begun();
    await reader.rows(own.quick);
    write();
    expect(begun()).toBe(before);
    // The second one waits while the first is made.
    reader.checkpoint();
    reader.checkpoint();
    await reader.rows(own.quick);
    write();
    expect(begun()).toBe(before + 1);
  });

  test("a checkpoint of a file that is none of SQLite's is told to the store; control: of one that is", async () => {
    const broken = vi.fn();
    await using own = openReader({ broken });
    own.reader.checkpoint();
    await own.reader.rows(own.quick);
    expect(broken).not.toHaveBeenCalled();
    const file = `${own.file}-other`;
    writeFileSync(file, "no database, and longer than a header of one ".repeat(40));
    await using other = createReader({ file, log: silent, broken });
    other.checkpoint();
    await vi.waitFor(() => expect(broken).toHaveBeenCalledOnce(), 5000);
  });

  test("a query of seconds holds up nothing; control: on the service's own connection it does, for all of its time", async () => {
    await using own = openReader();
    await own.reader.rows(own.quick);
    const begun = performance.now();
    const apart = await longestBlock(() => own.reader.rows(own.slow));
    const took = performance.now() - begun;
    const here = await longestBlock(() => readerOn(own.db).rows(own.slow));
    expect(took).toBeGreaterThan(200);
    expect(here).toBeGreaterThan(took / 4);
    expect(apart).toBeLessThan(here / 2);
  });

  test("what was committed before is read, from the first row to the last of a long answer", async () => {
    await using own = openReader();
    const insert = own.database.prepare("insert into numbers values (?)");
    const all = sql<{ n: number; text: string }>`select n, printf('%.5000c', 'x') as text from numbers order by n`;
    for (let n = 0; n < 50; n += 1) {
      insert.run(n);
      expect(await own.reader.rows(all.compile(own.db))).toHaveLength(n + 1);
    }
    for (let n = 50; n < 1000; n += 1) insert.run(n);
    // Five megabytes, in parts of a quarter.
    const rows = await own.reader.rows(all.compile(own.db));
    expect(rows.map(({ n }) => n)).toEqual(Array.from({ length: 1000 }, (_, n) => n));
  });

  test("nobody writes through it", async () => {
    await using own = openReader();
    await expect(
      own.reader.rows(sql`insert into numbers values (1) returning n`.compile(own.db)),
    ).rejects.toMatchObject({
      code: "store_unavailable",
      message: expect.stringContaining("readonly") as string,
    });
    expect(await own.reader.rows(own.quick)).toEqual([{ one: 1 }]);
  });

  test("a read whose client has gone does not begin; the one that runs is not waited for", async () => {
    await using own = openReader();
    await own.reader.rows(own.quick);
    const begun = performance.now();
    const first = new AbortController();
    const running = own.reader.rows(own.slow, first.signal);
    const gone = Array.from({ length: 20 }, () => new AbortController());
    const waiting = gone.map(({ signal }) => own.reader.rows(own.slow, signal));
    const stays = own.reader.rows(own.quick);
    first.abort();
    for (const each of gone) each.abort();
    for (const read of [running, ...waiting]) await expect(read).rejects.toMatchObject({ name: "AbortError" });
    const dropped = performance.now() - begun;
    expect(await stays).toEqual([{ one: 1 }]);
    const one = performance.now();
    await own.reader.rows(own.slow);
    // Twenty-one of them would have taken twenty-one times as long.
    expect(dropped).toBeLessThan((performance.now() - one) * 5);
    await expect(own.reader.rows(own.quick, AbortSignal.abort())).rejects.toMatchObject({ name: "AbortError" });
  });

  test("as many wait as may; the next is refused, and those that wait are answered", async () => {
    await using own = openReader();
    const running = own.reader.rows(own.slow);
    const waiting = Array.from({ length: 1000 }, () => own.reader.rows(own.quick));
    await expect(own.reader.rows(own.quick)).rejects.toMatchObject({
      code: "store_unavailable",
      message: expect.stringContaining("1000 reads wait") as string,
    });
    await running;
    expect(await Promise.all(waiting)).toHaveLength(1000);
    expect(await own.reader.rows(own.quick)).toEqual([{ one: 1 }]);
  });

  test("the thread starts with the first read, ends when none came for a while, and starts again", async () => {
    const threads: Worker[] = [];
    const heard = (thread: Worker) => void threads.push(thread);
    process.on("worker", heard);
    await using own = openReader({ idle: 200 });
    await pause(50);
    expect(threads).toHaveLength(0);
    await Promise.all([own.reader.rows(own.quick), own.reader.rows(own.quick)]);
    await own.reader.rows(own.quick);
    expect(threads).toHaveLength(1);
    // An ended thread has the id -1.
    await vi.waitFor(() => expect(threads[0]?.threadId).toBe(-1), { timeout: 10_000, interval: 20 });
    expect(await own.reader.rows(own.quick)).toEqual([{ one: 1 }]);
    expect(threads).toHaveLength(2);
    process.off("worker", heard);
  });

  test("a thread that dies takes one read with it; the next ones have another", async () => {
    await using own = openReader();
    const post = vi.spyOn(Worker.prototype, "postMessage");
    const running = own.reader.rows(own.slow);
    const waiting = own.reader.rows(own.quick);
    const thread = post.mock.contexts[0] as Worker;
    post.mockRestore();
    await pause(100);
    void thread.terminate();
    await expect(running).rejects.toMatchObject({ code: "store_unavailable" });
    expect(await waiting).toEqual([{ one: 1 }]);
  });

  test("closing refuses what waits", async () => {
    await using own = openReader();
    const reads = [own.slow, own.quick, own.quick].map((query) => own.reader.rows(query as CompiledQuery<object>));
    const ends = Promise.all(reads.map((read) => expect(read).rejects.toMatchObject({ code: "store_unavailable" })));
    await own.reader[Symbol.asyncDispose]();
    await ends;
    await expect(own.reader.rows(own.quick)).rejects.toMatchObject({ code: "store_unavailable" });
  });

  test("what grows with the log is read in the thread, what the engine needs is not; the thread is there only then", async () => {
    await using place = await open();
    const { long, mission } = await place.fillLog({ tasks: 300, projects: 3, turns: 100 });
    const { store } = place;
    await atRest();
    const prepare = vi.spyOn(Database.prototype, "prepare");
    const post = vi.spyOn(Worker.prototype, "postMessage");
    /** Statements that work makes here, and queries that it has the thread make. */
    const counted = async (work: () => Promise<unknown>): Promise<{ here: number; apart: boolean }> => {
      prepare.mockClear();
      post.mockClear();
      await work();
      return { here: prepare.mock.calls.length, apart: post.mock.calls.length > 0 };
    };
    const project = "/work/p0/.git";
    const last = await store.position();
    const near: (() => Promise<unknown>)[] = [
      () => store.state(long),
      () => store.mission(mission.stream),
      () => store.read(long, { after: 290 }),
      () => store.read(long, { types: ["reply.finished"], last: true, limit: 1 }),
      () => store.since(0, 1000),
      () => store.since(last - 20, 200, { project }),
      () => store.since(last - 20, 200, { types: ["task.settled"] }),
      () => store.due(new Date(), 10),
      () => store.places([long]),
      // What is done at each start, and finds nothing to do.
      () => store.webhooks.purge({ delivered: 1, keep: 1, rest: 1 }),
      () => store.forget(new Date(0)),
      () => store.orphans.nameBlobs(new AbortController().signal),
      () => store.orphans.find(),
      () => store.commit({ appends: [{ stream: long, expected: "any", events: [message()] }] }),
    ];
    for (const work of near) expect((await counted(work)).apart, String(work)).toBe(false);
    const far: (() => Promise<unknown>)[] = [
      () => store.list({ project, limit: 51 }),
      () => store.list({ project, limit: 51, search: "no such words" }),
      () => store.list({ project, limit: 51, metadata: { team: "none" } }),
      () => store.projects(50),
      () => store.missions({ limit: 51, search: "no such words" }),
      () => store.since(0, 200, { project: "/nowhere" }),
      () => store.since(0, 200, { mission: mission.stream }),
      () => store.since(0, 200, { types: ["squad.refused"] }),
      () => store.read(long),
      () => messagesIn(store, long, { after: 0, limit: 5, open: [] }),
      () => store.webhooks.deliveries({ limit: 50 }),
    ];
    for (const work of far) expect(await counted(work), String(work)).toEqual({ here: 0, apart: true });
    vi.restoreAllMocks();
  });
});

describe.skipIf(postgresURL === undefined)("PostgreSQL", () => {
  const openPools = () => {
    // As the store opens them: a cancel that comes late is an error of the connection, which somebody has to hear.
    const config = configOf(postgresURL ?? "");
    const [pool, other] = [openPool({ ...config, max: 2 }, slowBounds, silent), openPool(config, slowBounds, silent)];
    const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: other }) });
    const reader = createPostgresReader(pool, other);
    const mark = `60.${randomInt(1e9)}`;
    return {
      db,
      reader,
      sleep: sql<{ slept: unknown }>`select pg_sleep(${sql.raw(mark)}) as slept`.compile(db),
      /** How many of them run in the database. */
      sleeping: async (): Promise<number> => {
        const { rows } = await sql<{ count: string }>`
          select count(*) as count from pg_stat_activity
           where state = 'active' and pid <> pg_backend_pid() and query like ${`%pg_sleep(${mark})%`}`.execute(db);
        return Number(rows[0]?.count);
      },
      async [Symbol.asyncDispose]() {
        await reader[Symbol.asyncDispose]();
        await pool.end();
        await db.destroy();
      },
    };
  };

  test("a read whose client has gone ends in the database, too, and what waited behind it goes on", async () => {
    await using own = openPools();
    const gone = new AbortController();
    const reads = Promise.allSettled([1, 2, 3, 4].map(() => own.reader.rows(own.sleep, gone.signal)));
    const waits = own.reader.rows(sql<{ one: number }>`select 1 as one`.compile(own.db));
    await vi.waitFor(async () => expect(await own.sleeping()).toBe(2), { timeout: 10_000 });
    const begun = performance.now();
    gone.abort();
    for (const read of await reads) expect(read).toMatchObject({ reason: { name: "AbortError" } });
    expect(await waits).toEqual([{ one: 1 }]);
    // The server answers before it counts.
    await vi.waitFor(async () => expect(await own.sleeping()).toBe(0), { timeout: 2_000 });
    expect(performance.now() - begun).toBeLessThan(10_000);
  });

  test("closing ends what runs", async () => {
    await using own = openPools();
    const read = own.reader.rows(own.sleep);
    const ended = expect(read).rejects.toMatchObject({ code: "store_unavailable" });
    await vi.waitFor(async () => expect(await own.sleeping()).toBe(1), { timeout: 10_000 });
    await own.reader[Symbol.asyncDispose]();
    await ended;
    // The server answers before it counts.
    await vi.waitFor(async () => expect(await own.sleeping()).toBe(0), { timeout: 2_000 });
  });

  test("searches that hang hold up no commit; control: they do hang", { timeout: 60_000 }, async () => {
    const place = await backends.find(({ name }) => name === "PostgreSQL")?.open();
    if (place === undefined) throw new Error("Expected PostgreSQL");
    await using open = place;
    const { store } = open;
    const first = created();
    const stream = first.data.taskID;
    await store.commit({ appends: [{ stream, expected: 0, events: [first] }] });
    const locked = open.sql?.("begin; lock table missions in access exclusive mode; select pg_sleep(3); commit");
    await pause(500);
    const gone = new AbortController();
    let answered = 0;
    const searches = Array.from({ length: 20 }, () =>
      store.missions({ limit: 5, search: "x" }, gone.signal).then(
        () => (answered += 1),
        () => {},
      ),
    );
    for (let n = 0; n < 20; n += 1)
      expect(await store.commit({ appends: [{ stream, expected: "any", events: [message()] }] })).toMatchObject({
        ok: true,
      });
    expect(answered).toBe(0);
    gone.abort();
    await Promise.all(searches);
    await locked;
  });
});
if (postgresURL === undefined) countSkipped(3);

const cases: Case[] = [
  {
    name: "a list shows what was committed before it was asked for",
    async run({ store }) {
      for (let n = 1; n <= 30; n += 1) {
        const first = created({ title: `Task ${n}` });
        await store.commit({ appends: [{ stream: first.data.taskID, expected: 0, events: [first] }] });
        const [list, projects, events] = await Promise.all([
          store.list({ project: "/work/project", limit: 100, search: `task ${n}` }),
          store.projects(5),
          store.since(0, 100, { project: "/work/project" }),
        ]);
        expect(list.map(({ title }) => title)).toContain(`Task ${n}`);
        expect(projects).toMatchObject([{ tasks: n, active: n }]);
        expect(events).toHaveLength(n);
      }
    },
  },
  {
    name: "a page of long events ends early, and none is missed; the next page goes on",
    async run({ store }) {
      const first = created();
      const stream = first.data.taskID;
      await store.commit({ appends: [{ stream, expected: 0, events: [first] }] });
      const long = Array.from({ length: 100 }, (_, n) => message({ text: `${n} ${"x".repeat(60_000)}` }));
      await store.commit({ appends: [{ stream, expected: 1, events: long }] });
      for (const filter of [{}, { project: "/work/project" }, { stream, types: ["message.received" as const] }]) {
        const versions: number[] = [];
        let pages = 0;
        for (let after = 0; ; pages += 1) {
          const page = await store.since(after, 1000, filter);
          const bytes = page.reduce((sum, event) => sum + JSON.stringify(event.data).length, 0);
          expect(bytes).toBeLessThan(2.1 * 1024 ** 2);
          const last = page.at(-1);
          if (last === undefined) break;
          versions.push(...page.map(({ version }) => version));
          after = last.position;
        }
        expect(versions.filter((version) => version > 1)).toEqual(Array.from({ length: 100 }, (_, n) => n + 2));
        expect(pages).toBeGreaterThan(2);
      }
      const followed: number[] = [];
      for await (const { version } of store.follow(0, new AbortController().signal, { stream })) {
        followed.push(version);
        if (version === 101) break;
      }
      expect(followed).toEqual(Array.from({ length: 101 }, (_, n) => n + 1));
    },
  },
  {
    name: "what the database refuses is store_unavailable, whoever asked for it",
    needs: "reopen",
    async run({ store, sql: run }) {
      for (const table of ["deliveries", "webhooks", "tasks", "missions", "answers"])
        await run?.(`drop table ${table}`);
      const { webhooks } = store;
      const asked: (() => Promise<unknown>)[] = [
        () => webhooks.list(),
        () => webhooks.deliveries({ limit: 5 }),
        () => webhooks.counts(),
        () => webhooks.nextDue(),
        () => webhooks.bury("hook_1", "gone", 1),
        () => webhooks.remove("hook_1"),
        () => webhooks.change("hook_1", { description: "x" }),
        () => webhooks.claim({ now: 1, worker: "w", leaseMs: 1, limit: 1 }),
        () => webhooks.purge({ delivered: 1, keep: 1, rest: 1 }),
        () => webhooks.record([], 1, 1).then(() => webhooks.free("w", 1)),
        () => store.list({ project: "/work/project", limit: 5 }),
        () => store.missions({ limit: 5 }),
        () => store.projects(5),
        () => store.dispatched("ses_1"),
        () => store.once("s", "k"),
        () => store.forget(new Date()),
      ];
      for (const ask of asked)
        await expect(ask(), String(ask)).rejects.toMatchObject({ code: "store_unavailable", retryable: true });
      // Control: what is whole answers.
      expect(await store.position()).toBe(0);
    },
  },
  {
    name: "idempotency keys and deliveries are removed however many there are, and no others",
    needs: "reopen",
    async run({ store, sql: run }) {
      const many = 1300;
      const first = created();
      const stream = first.data.taskID;
      await store.commit({ appends: [{ stream, expected: 0, events: [first] }] });
      const numbers = `with recursive up (n) as (select 1 union all select n + 1 from up where n < ${many})`;
      const insert = (id: string, state: string, at: number) =>
        `insert into deliveries (id, webhook, target, stream, message, type, position, body, state, attempts, due_at, created, updated)
         ${numbers} select '${id}' || n, 'hook_1', 'hook_1', '${stream}', '${id}' || n, 'task.completed', 1, '{}', '${state}', 1, 1, ${at}, ${at} from up`;
      await run?.(insert("a", "delivered", 10));
      await run?.(insert("b", "dead", 10));
      await run?.(insert("c", "dead", 1000));
      await run?.(insert("d", "delivered", 1000));
      await run?.(
        `insert into answers (id, body_hash, status, body, at) ${numbers} select 'k' || n, 'h', 200, '{}', n from up`,
      );
      await store.webhooks.purge({ delivered: 500, keep: 1000, rest: 500 });
      const left = async (state: "dead" | "delivered") => store.webhooks.deliveries({ state, limit: 5000 });
      expect((await left("dead")).map(({ id }) => id[0])).toEqual(Array.from({ length: many }, () => "c"));
      const delivered = (await left("delivered")).map(({ id }) => id);
      expect(delivered).toHaveLength(1000);
      expect(delivered.every((id) => id.startsWith("d"))).toBe(true);
      await store.forget(new Date(many - 4));
      // Five keys are left: a unique index takes each again but those.
      await run?.(
        `insert into answers (id, body_hash, status, body, at) ${numbers.replace(String(many), String(many - 5))} select 'k' || n, 'h', 200, '{}', n from up`,
      );
      await expect(
        run?.(`insert into answers (id, body_hash, status, body, at) values ('k${many - 4}', 'h', 200, '{}', 1)`),
      ).rejects.toThrow();
      await store.check();
    },
  },
];

onEveryStore(cases);
