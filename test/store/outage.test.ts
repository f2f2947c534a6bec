import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, Pool } from "pg";
import { describe, expect, test } from "vitest";
import { newID } from "../../src/id.ts";
import { ServiceError } from "../../src/error.ts";
import { silent } from "../../src/log.ts";
import { retryingReads } from "../../src/store/outage.ts";
import { commitBounds, configOf, openClient, openPool } from "../../src/store/postgres/connection.ts";
import { createClock } from "../../src/clock.ts";
import { joinDatabase } from "../../src/store/postgres/node/member.ts";
import { createPostgresStore } from "../../src/store/postgres/postgres.ts";
import type { Write } from "../../src/store/store.ts";
import type { NewDelivery } from "../../src/store/webhook-queue.ts";
import { until } from "../harness/project.ts";
import { message } from "../fixtures/store/message.ts";
import { type PostgresProxy, startPostgresProxy } from "../harness/double/postgres-proxy.ts";
import { created } from "../harness/events.ts";
import { night, sampleByDay } from "../harness/night.ts";
import { countSkipped, freshDatabase, freshSchema, postgresURL } from "../harness/postgres.ts";
import type { Store } from "../../src/store/store.ts";

/** What the store does when its connections to PostgreSQL break, or the database has settings of its own. */

type Scene = AsyncDisposable & { schema: string; store: Store; proxy: PostgresProxy; begin: () => Promise<string> };

const add = (stream: string): Write => ({ appends: [{ stream, expected: "any", events: [message()] }] });

const begin = async (store: Store): Promise<string> => {
  const first = created();
  const stream = first.data.taskID;
  const done = await store.commit({ appends: [{ stream, expected: 0, events: [first] }] });
  if (!done.ok) throw new Error(`Expected a new Task, got ${done.reason}`);
  return stream;
};

const newWebhook = async (store: Store): Promise<string> => {
  const id = newID("hook");
  const rest = { project: null, directory: null, description: "", reason: null, created: 1, updated: 1 };
  const made = { id, url: "https://example.com", events: [], state: "enabled" as const, secrets: [], ...rest };
  expect(await store.webhooks.add(made, 100)).toBe(true);
  return id;
};

const delivery = (stream: string, webhook: string): NewDelivery => {
  const id = newID("dlv");
  return { id, webhook, target: webhook, stream, message: id, type: "task.completed", position: 1, body: "{}" };
};

/** What does not differ from stream to stream. */
const shape = ([answer, events]: readonly unknown[]) => [
  Array.isArray(answer) ? answer.length : typeof answer === "object" ? Object.keys(answer ?? {}) : answer,
  events,
];

/** A store that reaches PostgreSQL through a proxy. */
const open = async (url: string): Promise<Scene> => {
  await using scope = new AsyncDisposableStack();
  const dataDir = await mkdtemp(join(tmpdir(), "sortie-outage-"));
  scope.defer(() => rm(dataDir, { recursive: true, force: true }));
  const schema = scope.use(freshSchema(url)).name;
  const proxy = scope.use(await startPostgresProxy(url));
  scope.defer(() => proxy.open());
  const store = scope.use(await createPostgresStore({ url: proxy.url, dataDir, log: silent, schema }));
  const held = scope.move();
  return { schema, store, proxy, begin: () => begin(store), [Symbol.asyncDispose]: () => held.disposeAsync() };
};

const cases: { name: string; night?: true; run: (url: string) => Promise<void> }[] = [
  {
    name: "all connections cut, again and again: the process goes on, and so does the store",
    async run(url) {
      await using scene = await open(url);
      const stream = await scene.begin();
      for (let round = 0; round < (night ? 20 : 2); round += 1) {
        const under = [1, 2, 3].map(() => scene.store.commit(add(stream)).catch(() => {}));
        scene.proxy.cutAll();
        await Promise.all(under);
        expect(await scene.store.commit(add(stream))).toMatchObject({ ok: true });
      }

      // The control: a client that a pool has given away has no listener, so that the end of its connection ends the
      // process.
      const plain = new Pool({ connectionString: url });
      const client = await plain.connect();
      expect(client.listenerCount("error")).toBe(0);
      client.release();
      await plain.end();
    },
  },
  {
    name: "cut at every message, before it arrives or instead of its answer: a write is done once, and told as it is",
    async run(url) {
      await using scene = await open(url);
      const { store, proxy } = scene;
      const webhook = await newWebhook(store);
      const operations: Record<string, (stream: string) => Promise<unknown>> = {
        commit: (stream) => store.commit(add(stream)),
        claim: async (stream) => (await store.claim(stream, "worker"))?.stream === stream,
        record: (stream) => store.webhooks.record([delivery(stream, webhook)], 1, 1),
        redeliver: () => store.webhooks.redeliver({ since: 0 }, 1),
        read: (stream) => store.read(stream),
      };
      // By day a message of one of them, by night every one.
      for (const [name, operation] of Object.entries(operations).slice(0, night ? 9 : 1)) {
        const stream = await begin(store);
        let messages = 0;
        proxy.rule(({ count }) => {
          messages = count;
          return "pass";
        });
        const whole = await operation(stream);
        proxy.rule(undefined);
        const expected = shape([whole, (await store.read(stream)).length]);
        const points = Array.from({ length: messages }, (_, index) => index + 1);
        expect(messages, name).toBeGreaterThan(4);
        for (const at of sampleByDay(`messages of ${name} at which the connection is cut`, points, 1))
          for (const verdict of ["cut", "cut after"] as const) {
            const again = await begin(store);
            proxy.rule(({ count }) => (count === at ? verdict : "pass"));
            const answer = await operation(again);
            proxy.rule(undefined);
            const made = shape([answer, (await store.read(again)).length]);
            expect(made, `${name}, ${verdict} ${at} of ${messages}`).toEqual(expected);
          }
      }
    },
  },
  {
    name: "a COMMIT whose answer is lost is told as done; control: a plain client hears an error, and it is done as well",
    async run(url) {
      await using scene = await open(url);
      const { store, proxy } = scene;
      const stream = await scene.begin();
      const lose = (): (() => number) => {
        let lost = 0;
        proxy.rule(({ sql }) => (sql === "commit" && (lost += 1) === 1 ? "cut after" : "pass"));
        return () => lost;
      };
      const lost = lose();
      expect(await store.commit(add(stream))).toMatchObject({ ok: true });
      expect(lost()).toBeGreaterThan(0);
      expect(await store.read(stream)).toHaveLength(2);

      const plain = new Client({ connectionString: proxy.url });
      plain.on("error", () => {});
      await plain.connect();
      const table = `${scene.schema}.control`;
      await plain.query(`create table ${table} (n integer); begin; insert into ${table} values (1)`);
      lose();
      await expect(plain.query("commit")).rejects.toThrow("Connection terminated");
      proxy.rule(undefined);
      const other = new Client({ connectionString: url });
      await other.connect();
      const { rows } = await other.query(`select n from ${table}`);
      await other.end();
      expect(rows).toEqual([{ n: 1 }]);
    },
  },
  {
    name: "a node's own connection is lost: what it asks is answered, and a package is replaced once; control: another's is not",
    async run(url) {
      await using scene = await open(url);
      const { schema, proxy } = scene;
      const address = new URL(proxy.url);
      address.searchParams.set("options", `-c search_path=${schema}`);
      await using node = await joinDatabase({
        url: address.href,
        name: "one",
        dataDir: "/nowhere",
        instance: "i",
        version: "1.0.0",
        sole: undefined,
        role: "all",
        clock: createClock(),
        log: silent,
      });
      const cut = () => {
        let cuts = 0;
        proxy.rule(({ sql }) =>
          sql.includes("insert into user_squads (") && (cuts += 1) === 1 ? "cut after" : "pass",
        );
        return () => cuts;
      };
      const cuts = cut();
      expect(await node.squads.replace("ours", null, { digest: "first", files: [] })).toBe(true);
      expect(cuts()).toBe(2);
      cut();
      expect(await node.squads.replace("ours", "other", { digest: "second", files: [] })).toBe(false);
      cut();
      expect(await node.squads.replace("ours", "first", null)).toBe(true);
      expect((await node.squads.list()).get("ours")?.digest).toBeNull();
      proxy.rule(undefined);
      proxy.cutAll();
      expect((await node.nodes()).map(({ name }) => name)).toEqual(["one"]);
    },
  },
  {
    name: "where nobody can tell whether it was written, that is the answer",
    async run(url) {
      await using scene = await open(url);
      const { store, proxy } = scene;
      const stream = await scene.begin();
      proxy.rule(({ sql }) => {
        if (sql !== "commit") return "pass";
        setTimeout(() => proxy.down(), 20);
        return "hold";
      });
      const written = store.commit(add(stream)).catch((error: unknown) => error);
      await new Promise((resolve) => setTimeout(resolve, 300));
      await store[Symbol.asyncDispose]();
      expect(await written).toMatchObject({ code: "store_unavailable", status: 503, details: { outcome: "unknown" } });
    },
  },
  {
    name: "an outage of half a second: writes and reads that come in it are answered after it",
    async run(url) {
      await using scene = await open(url);
      const { store, proxy } = scene;
      const stream = await scene.begin();
      proxy.down();
      const all = Promise.all([
        store.commit(add(stream)),
        store.claim(stream, "worker"),
        store.state(stream),
        store.read(stream),
        store.list({ project: "/work/project", limit: 5 }),
        store.webhooks.list(),
        store.position(),
      ]);
      let over = false;
      void all.then(() => {
        over = true;
      });
      await new Promise((resolve) => setTimeout(resolve, 500));
      expect(over).toBe(false);
      proxy.open();
      const [committed, claim, state] = await all;
      expect([committed.ok, claim?.stream, state?.taskID]).toEqual([true, stream, stream]);
    },
  },
  {
    name: "a write that would hang is seen at once, before one does; control: it is not, when the lock is free",
    async run(url) {
      await using scene = await open(url);
      const { store, proxy } = scene;
      await store.check();
      const other = new Client({ connectionString: url });
      await other.connect();
      await other.query(`begin; select position from ${scene.schema}.log for update`);
      const begun = performance.now();
      const answers = await Promise.allSettled([store.check(), store.check()]);
      expect(performance.now() - begun).toBeLessThan(2_500);
      for (const answer of answers)
        expect(answer).toMatchObject({
          reason: {
            code: "store_unavailable",
            message: expect.stringContaining("another process holds the lock") as string,
          },
        });
      await other.query("rollback");
      await store.check();
      await other.end();

      proxy.rule(() => "hold");
      const silent = performance.now();
      await expect(store.check()).rejects.toMatchObject({ code: "store_unavailable" });
      expect(performance.now() - silent).toBeLessThan(2_500);
      proxy.rule(undefined);
      proxy.cutAll();
      await until(
        () =>
          store.check().then(
            () => true,
            () => false,
          ),
        (well) => well,
      );
    },
  },
  {
    name: "a peer that is suspended within a transaction holds up others for five seconds",
    night: true,
    async run(url) {
      await using scene = await open(url);
      const stream = await scene.begin();
      // As a store's own session does it, and then nothing more comes.
      const peer = await openClient(configOf(url, scene.schema), commitBounds);
      await peer.query("begin");
      await peer.query("select position from log for update");
      const begun = performance.now();
      expect(await scene.store.commit(add(stream))).toMatchObject({ ok: true });
      expect(performance.now() - begun).toBeLessThan(9_000);
      await expect(peer.query("select 1")).rejects.toThrow();
      await peer.end().catch(() => {});

      // The control: a session of somebody else's is not ended, and the write is refused after its ten seconds.
      const other = new Client({ connectionString: url });
      await other.connect();
      await other.query(`begin; select position from ${scene.schema}.log for update`);
      await expect(scene.store.commit(add(stream))).rejects.toMatchObject({ code: "store_unavailable" });
      await other.end();
      expect(await scene.store.read(stream)).toHaveLength(2);
    },
  },
  {
    name: "an outage of 15 s: requests are refused after ten, what runs under a claim goes on after it",
    night: true,
    async run(url) {
      await using scene = await open(url);
      const { store, proxy } = scene;
      const stream = await scene.begin();
      await using claim = await store.claim(stream, "worker");
      if (claim === undefined) throw new Error("Expected a claim");
      proxy.down();
      const begun = performance.now();
      const seconds = () => Math.round((performance.now() - begun) / 1000);
      const timed = async (work: Promise<unknown>) => [
        await work.catch((error: ServiceError) => error.code),
        seconds(),
      ];
      const own = timed(store.commit({ ...add(stream), fence: claim.fence }).then(({ ok }) => ok));
      const read = timed(
        retryingReads(store, claim.lost)
          .read(stream)
          .then(({ length }) => length),
      );
      const requests = [timed(store.commit(add(stream))), timed(store.read(stream))];
      for (const [code, after] of await Promise.all(requests)) {
        expect(code).toBe("store_unavailable");
        expect(after).toBeGreaterThan(8);
        expect(after).toBeLessThan(13);
      }
      await new Promise((resolve) => setTimeout(resolve, 15_000 - (performance.now() - begun)));
      proxy.open();
      expect((await own)[0]).toBe(true);
      expect([1, 2]).toContain((await read)[0]);
      expect(claim.lost.aborted).toBe(false);
      expect(await store.read(stream)).toHaveLength(2);
    },
  },
  {
    name: "settings of the database do not count, where the store has its own",
    async run(url) {
      await using database = await freshDatabase(url, {
        default_transaction_isolation: "serializable",
        statement_timeout: "100ms",
        lock_timeout: "1ms",
        idle_in_transaction_session_timeout: "1ms",
      });
      // The control: they count for others.
      const other = new Client({ connectionString: database.url });
      await other.connect();
      await expect(other.query("select pg_sleep(0.3)")).rejects.toMatchObject({ code: "57014" });
      await other.end();

      await using scene = await open(database.url);
      const stream = await scene.begin();
      await Promise.all([1, 2, 3].map(() => scene.store.commit(add(stream))));
      expect(await scene.store.position()).toBe(4);

      const pool = openPool(configOf(database.url), commitBounds, silent);
      const names = [
        "default_transaction_isolation",
        "statement_timeout",
        "lock_timeout",
        "idle_in_transaction_session_timeout",
      ];
      const { rows } = await pool.query<{ name: string; setting: string }>(
        "select name, setting from pg_settings where name = any($1)",
        [names],
      );
      await pool.end();
      expect(Object.fromEntries(rows.map(({ name, setting }) => [name, setting]))).toEqual({
        default_transaction_isolation: "read committed",
        statement_timeout: "30000",
        lock_timeout: "5000",
        idle_in_transaction_session_timeout: "5000",
      });
    },
  },
];

test("what runs waits for its blobs, too, as long as the database is away; control: a request does not", async () => {
  let away = 0;
  const answer = <T>(value: T) => {
    away += 1;
    return away % 2 === 1
      ? Promise.reject(new ServiceError("store_unavailable", "the database is away"))
      : Promise.resolve(value);
  };
  const blobs = { get: () => answer(Buffer.from("one")), put: () => answer({ sha256: "a", bytes: 3 }) };
  const store = { kind: "postgres", blobs } as unknown as Store;
  await expect(store.blobs.get("a")).rejects.toMatchObject({ code: "store_unavailable" });
  away = 0;
  const runs = retryingReads(store, new AbortController().signal).blobs;
  expect((await runs.get("a"))?.toString()).toBe("one");
  expect(await runs.put(Buffer.from("one"))).toEqual({ sha256: "a", bytes: 3 });
  expect(away).toBe(4);
});

describe.skipIf(postgresURL === undefined)("PostgreSQL", () => {
  for (const { name, run } of cases.filter(({ night: late }) => night || late === undefined))
    test.concurrent(name, { timeout: night ? 600_000 : 20_000 }, () => run(postgresURL ?? ""));
});
if (postgresURL === undefined) countSkipped(cases.length);
