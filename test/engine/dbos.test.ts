import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { StreamID } from "../../src/domain/event.ts";
import { createDbosEngine } from "../../src/engine/dbos/engine.ts";
import { createLocalEngine } from "../../src/engine/in-process.ts";
import { dueNow } from "../../src/engine/due.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { silent } from "../../src/log.ts";
import { createPostgresStore } from "../../src/store/postgres/postgres.ts";
import type { Store } from "../../src/store/store.ts";
import { created, settled } from "../harness/events.ts";
import { countSkipped, freshSchema, postgresURL } from "../harness/postgres.ts";
import { until } from "../harness/project.ts";

/** What only the engine of several nodes does; what every engine must do stands in `engine.test.ts`. */

describe.skipIf(postgresURL === undefined)("nodes with DBOS", () => {
  const schema = freshSchema(postgresURL ?? "");
  const folder = mkdtempSync(join(tmpdir(), "sortie-dbos-"));
  const url = new URL(postgresURL ?? "postgres://none");
  url.searchParams.set("options", `-c search_path=${schema.name}`);
  let store: Store;
  const engines: Engine[] = [];

  beforeAll(async () => {
    await schema.create();
    store = await createPostgresStore({ url: url.href, dataDir: folder, log: silent });
  }, 30_000);
  afterEach(async () => {
    for (const engine of engines.splice(0)) await engine[Symbol.asyncDispose]();
    await sql(`delete from "${schema.name}_dbos".workflow_status`);
  });
  afterAll(async () => {
    await store[Symbol.asyncDispose]();
    await schema[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  const sql = async <Row extends object>(text: string): Promise<Row[]> => {
    const client = new Client({ connectionString: url.href });
    await client.connect();
    try {
      return (await client.query<Row>(text)).rows;
    } finally {
      await client.end();
    }
  };
  const rows = () =>
    sql<{ id: string; status: string; queue: string | null; executor: string; error: string | null }>(
      `select workflow_uuid as id, status, queue_name as queue, executor_id as executor, error
         from "${schema.name}_dbos".workflow_status order by created_at`,
    );

  /** A node whose own looks are a minute apart: what it does it was told. `free`: whether any node may take it up. */
  const begin = async (node: string, maxRunning: number, free = true, at = url.href) => {
    const engine = await createDbosEngine({
      store: {
        due: (now, limit) => store.due(now, limit),
        nextDue: () => store.nextDue(),
        nodes: { unplaced: async (given) => new Set(free ? given : []) },
      },
      url: at,
      node,
      maxRunning,
      reconcileMs: 60_000,
      pollMs: 100,
      living: async () => ["a", "b"],
      log: silent,
    });
    engines.push(engine);
    return engine;
  };
  const make = async (): Promise<StreamID> => {
    const event = created();
    const stream = event.data.taskID;
    const due = [{ stream, due: dueNow(new Date(), "normal") }];
    await store.commit({ appends: [{ stream, expected: 0, events: [event] }], due });
    return stream;
  };
  const end = async (stream: StreamID, work: () => Promise<void> = async () => {}): Promise<boolean> => {
    await using claim = await store.claim(stream, "test");
    if (claim === undefined) return false;
    await work();
    const appends = [{ stream, expected: "any" as const, events: [settled()] }];
    await store.commit({ appends, due: [{ stream, due: null }], fence: claim.fence });
    return true;
  };

  test("what one node has no room for another one takes from the queue; each runs once", {
    timeout: 60_000,
  }, async () => {
    const [a, b] = [await begin("a", 1), await begin("b", 2)];
    const ran: [string, StreamID][] = [];
    const gate = Promise.withResolvers<void>();
    a.start(async (stream) => void (await end(stream, async () => (ran.push(["a", stream]), await gate.promise))));
    b.start(async (stream) => void (await end(stream, async () => void ran.push(["b", stream]))));
    await sleep(100);
    const streams: StreamID[] = [];
    for (let count = 0; count < 6; count += 1) {
      const stream = await make();
      streams.push(stream);
      a.nudge(stream, dueNow(new Date(), "normal"));
    }
    await until(
      async () => ran.length,
      (count) => count === 6,
    );
    gate.resolve();
    expect(ran.map(([, stream]) => stream).toSorted()).toEqual(streams.toSorted());
    expect(ran.filter(([node]) => node === "b").length).toBe(5);
    await until(
      async () => await store.waiting(),
      (waiting) => waiting === 0,
    );
  });

  test("control: what belongs to a node waits for it in its own queue", { timeout: 60_000 }, async () => {
    const [a, b] = [await begin("a", 1, false), await begin("b", 2)];
    const ran: string[] = [];
    const gate = Promise.withResolvers<void>();
    const held = async () => {
      ran.push("a");
      await gate.promise;
    };
    a.start(async (stream) => void (await end(stream, held)));
    b.start(async (stream) => void (await end(stream, async () => void ran.push("b"))));
    await sleep(100);
    for (const stream of [await make(), await make()]) a.nudge(stream, dueNow(new Date(), "normal"));
    const found = await until(rows, (all) => all.some(({ queue }) => queue !== null));
    expect(found.flatMap(({ queue }) => queue ?? [])).toEqual(["sortie node a"]);
    await sleep(700);
    expect(ran).toEqual(["a"]);
    gate.resolve();
    await until(
      async () => await store.waiting(),
      (waiting) => waiting === 0,
    );
    expect(ran).toEqual(["a", "a"]);
  });

  test("a run is a workflow that names its node; what it throws is not written down", { timeout: 60_000 }, async () => {
    const a = await begin("a", 4);
    const broken = await make();
    a.start(async (stream) => {
      if (stream === broken) {
        await end(stream);
        throw new Error("what nobody may read");
      }
      await end(stream);
    });
    const good = await make();
    a.nudge(good, dueNow(new Date(), "normal"));
    await until(
      async () => await store.waiting(),
      (waiting) => waiting === 0,
    );
    const found = await until(rows, (all) => all.filter(({ status }) => status === "SUCCESS").length >= 2);
    expect(found.filter(({ queue }) => queue === null).every(({ executor }) => executor.startsWith("a "))).toBe(true);
    expect(JSON.stringify(found)).not.toContain("nobody may read");
  });

  const started = async (engine: Engine, count: number, all: boolean) => {
    const begun = new Map<StreamID, number>();
    engine.start(async (stream) => {
      begun.set(stream, performance.now());
      await end(stream);
    });
    const dues: number[] = [];
    const from = performance.now();
    if (all) {
      await Promise.all(Array.from({ length: count }, make));
      engine.nudge("any", dueNow(new Date(), "normal"));
    } else
      for (let round = 0; round < count; round += 1) {
        const stream = await make();
        const at = performance.now();
        engine.nudge(stream, dueNow(new Date(), "normal"));
        await until(
          async () => begun.get(stream),
          (time) => time !== undefined,
          5_000,
          1,
        );
        dues.push((begun.get(stream) ?? 0) - at);
      }
    await until(
      async () => await store.waiting(),
      (waiting) => waiting === 0,
      30_000,
    );
    const took = (Math.max(...begun.values()) - from) / 1000;
    return { perSecond: count / took, ms: dues.toSorted((one, two) => one - two)[Math.floor(count / 2)] ?? 0 };
  };
  const local = async () => {
    const engine = createLocalEngine({ store, maxRunning: 64, log: silent, reconcileMs: 60_000 });
    engines.push(engine);
    return engine;
  };

  test("600 at once start quickly; with room, a start costs little over the local engine's", {
    timeout: 120_000,
  }, async () => {
    const figures = {
      dbos: await started(await begin("a", 64), 600, true),
      local: await started(await local(), 600, true),
    };
    const one = {
      dbos: await started(await begin("b", 64), 40, false),
      local: await started(await local(), 40, false),
    };
    console.log(
      `600 at once: ${figures.dbos.perSecond.toFixed(0)} starts a second with DBOS, ${figures.local.perSecond.toFixed(0)} with the local engine; ` +
        `one alone, p50: ${one.dbos.ms.toFixed(1)} and ${one.local.ms.toFixed(1)} ms`,
    );
    // On a machine with nothing else to do it is more than twice as much.
    expect(figures.dbos.perSecond).toBeGreaterThan(Math.min(100, figures.local.perSecond / 10));
    expect(one.dbos.ms - one.local.ms).toBeLessThan(60);
  });

  test("rows of what is over go, and those of dead processes; those of the living stay", {
    timeout: 60_000,
  }, async () => {
    const table = `"${schema.name}_dbos".workflow_status`;
    const old = Date.now() - 2 * 3_600_000;
    const older = Date.now() - 25 * 3_600_000;
    const row = (id: string, status: string, executor: string, at: number) =>
      `('${id}', '${status}', 'look', '${executor}', ${at}, ${at})`;
    await sql(`insert into ${table} (workflow_uuid, status, name, executor_id, created_at, updated_at) values
      ${[
        row("over", "SUCCESS", "a 1", old),
        row("just over", "SUCCESS", "a 1", Date.now()),
        row("of my death", "PENDING", "a 1", Date.now()),
        row("of the dead", "PENDING", "gone 1", Date.now()),
        row("of the living", "PENDING", "b 1", old),
        row("forgotten", "ENQUEUED", "b 1", older),
      ].join(",")}`);
    await begin("a", 1);
    const left = await until(rows, (found) => found.length <= 2);
    expect(left.map(({ id }) => id).toSorted()).toEqual(["just over", "of the living"]);
  });

  test("six that begin at once on an empty database make its tables one after the other", {
    timeout: 60_000,
  }, async () => {
    await using empty = freshSchema(postgresURL ?? "");
    await empty.create();
    const at = new URL(url);
    at.searchParams.set("options", `-c search_path=${empty.name}`);
    const begun = await Promise.allSettled(["a", "b", "c", "d", "e", "f"].map((node) => begin(node, 1, true, at.href)));
    expect(begun.map((one) => (one.status === "rejected" ? String(one.reason) : "begun"))).toEqual(
      Array(6).fill("begun"),
    );
    for (const engine of engines.splice(0)) await engine[Symbol.asyncDispose]();
  });
});
if (postgresURL === undefined) countSkipped(6);
