import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import type { StreamID } from "../../src/domain/event.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { dueNow, dueToEnd } from "../../src/engine/due.ts";
import { createDbosEngine } from "../../src/engine/dbos/engine.ts";
import { createLocalEngine, type LocalEngineOptions } from "../../src/engine/in-process.ts";
import { type Log, silent } from "../../src/log.ts";
import type { Priority } from "../../src/protocol/task/status.ts";
import { createSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import { createPostgresStore } from "../../src/store/postgres/postgres.ts";
import type { RunningBounds } from "../../src/store/running.ts";
import type { Due, Store } from "../../src/store/store.ts";
import { created, settled } from "../harness/events.ts";
import { countSkipped, freshSchema, postgresURL } from "../harness/postgres.ts";
import { fairMs } from "../harness/pace.ts";

/** What every engine must do, whatever happens to the nudges. A further backend joins by a line in `backends`. */

type Settings = Partial<Omit<LocalEngineOptions, "store">> & { bounds?: RunningBounds };
type World = { store: Store; engine: Engine };

/** `patience`: how much longer what has to come soon may take there. */
const backends: { name: string; patience: number; open(folder: string, settings: Settings): Promise<World> }[] = [
  {
    name: "local over SQLite",
    patience: 1,
    async open(folder, { bounds, ...settings }) {
      const file = folder === "" ? ":memory:" : join(folder, "sortie.db");
      const store = await createSqliteStore({ file, dataDir: folder === "" ? temp() : folder, log: silent, bounds });
      return { store, engine: createLocalEngine({ store, maxRunning: 4, log: silent, ...settings }) };
    },
  },
  ...(postgresURL === undefined
    ? []
    : [
        {
          name: "DBOS over PostgreSQL",
          patience: 6,
          async open(folder: string, { bounds, ...settings }: Settings): Promise<World> {
            const url = postgresURL ?? "";
            if (folder === "" || !known.has(folder)) await emptied();
            known.add(folder);
            const store = await createPostgresStore({
              url,
              dataDir: folder === "" ? temp() : folder,
              schema: schema.name,
              alone: true,
              log: silent,
              bounds,
              ...(settings.now === undefined ? {} : { now: settings.now }),
            });
            const living = async () => ["test"];
            const own = new URL(url);
            own.searchParams.set("options", `-c search_path=${schema.name}`);
            const more = { store, url: own.href, node: "test", living };
            return { store, engine: await createDbosEngine({ maxRunning: 4, log: silent, ...settings, ...more }) };
          },
        },
      ]),
];

/** All tests of a server's database have one, since DBOS's own tables take long to make. */
const schema = freshSchema(postgresURL ?? "");
let isMade = false;
/** Folders whose service comes again. */
const known = new Set<string>();
const emptied = async (): Promise<void> => {
  if (!isMade) await schema.create();
  else {
    const client = new Client({ connectionString: postgresURL });
    await client.connect();
    const tables = `"${schema.name}".events, "${schema.name}".streams, "${schema.name}".tasks, "${schema.name}".snapshots`;
    try {
      // The engine of the test before may still be ending: then one of the two gives way.
      for (let isEmpty = false; !isEmpty; )
        isEmpty = await client.query(`truncate ${tables}`).then(
          () => true,
          (error: unknown) => {
            if ((error as { code?: string }).code !== "40P01") throw error;
            return false;
          },
        );
    } finally {
      await client.end();
    }
  }
  isMade = true;
};
afterAll(() => schema[Symbol.asyncDispose]());
if (postgresURL === undefined) countSkipped(31);

const folders: string[] = [];
const temp = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "sortie-engine-"));
  folders.push(folder);
  return folder;
};

const close = async ({ engine, store }: World): Promise<void> => {
  await engine[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
};
afterEach(async () => {
  for (const world of worlds.splice(0)) await close(world);
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});
const worlds: World[] = [];

/** Numbers that look random and come again with the seed. */
const randomOf = (seed: number) => () => {
  seed = (seed + 0x6d2b79f5) | 0;
  let value = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
  return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
};

const make = async ({ store }: World, due: Due, directory = "/work/project"): Promise<StreamID> => {
  const event = created({ directory });
  const stream = event.data.taskID;
  const done = await store.commit({
    appends: [{ stream, expected: 0, events: [event] }],
    due: [{ stream, due }],
  });
  expect(done.ok).toBe(true);
  return stream;
};

const mark = async ({ store }: World, stream: StreamID, due: Due): Promise<void> => {
  expect((await store.commit({ appends: [], due: [{ stream, due }] })).ok).toBe(true);
};

/** What a run does, in small: claim, work, settle, give back. */
const runOf =
  (world: World, work: (stream: StreamID, signal: AbortSignal) => Promise<void> | void) =>
  async (stream: StreamID, signal: AbortSignal): Promise<void> => {
    await using claim = await world.store.claim(stream, "test");
    if (claim === undefined) return;
    await work(stream, signal);
    await world.store.commit({
      appends: [{ stream, expected: "any", events: [settled()] }],
      due: [{ stream, due: null }],
      fence: claim.fence,
    });
  };

const until = async (condition: () => boolean | Promise<boolean>, ms = 30_000): Promise<void> => {
  const end = Date.now() + ms;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`Expected within ${ms} ms: ${condition.toString()}`);
    await sleep(5);
  }
};

const now = (priority: Priority = "normal") => dueNow(new Date(), priority);
const in_ = (ms: number): Due => ({ at: new Date(Date.now() + ms), rank: Date.now() });

const ended = (signal: AbortSignal) =>
  new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));

describe.each(backends)("engine: $name", { timeout: 60_000 }, (backend) => {
  const open = async (settings: Settings = {}, folder = ""): Promise<World> => {
    const world = await backend.open(folder, settings);
    worlds.push(world);
    return world;
  };

  describe("every due stream runs", () => {
    const nudgings: Record<string, (nudge: () => void, random: () => number) => void> = {
      delivered: (nudge) => nudge(),
      dropped: () => undefined,
      doubled: (nudge) => {
        nudge();
        nudge();
      },
      reordered: (nudge, random) => void setTimeout(nudge, random() * 100),
      "all of it": (nudge, random) => {
        for (let times = Math.floor(random() * 4); times > 0; times--) setTimeout(nudge, random() * 60);
      },
    };
    const seed = Math.floor(Math.random() * 2 ** 31);

    test.each(Object.keys(nudgings))(`nudges %s (seed ${seed})`, async (kind) => {
      const random = randomOf(seed);
      const world = await open({ reconcileMs: 100 });
      const runs = new Map<StreamID, number>();
      let most = 0;
      world.engine.start(
        runOf(world, async (stream) => {
          runs.set(stream, (runs.get(stream) ?? 0) + 1);
          most = Math.max(most, world.engine.running());
          await sleep(random() * 8);
        }),
      );
      const streams: StreamID[] = [];
      for (let count = 0; count < 60; count++) {
        const due = random() < 0.2 ? in_(random() * 200) : now(random() < 0.5 ? "normal" : "high");
        const stream = await make(world, due);
        streams.push(stream);
        nudgings[kind]?.(() => world.engine.nudge(stream, due), random);
        if (random() < 0.3) await sleep(random() * 10);
      }
      await until(async () => (await world.store.waiting()) === 0 && world.engine.running() === 0);
      expect(Object.fromEntries(runs)).toEqual(Object.fromEntries(streams.map((stream) => [stream, 1])));
      expect(most).toBe(4);
    });

    test("control: without nudges and without the reconciler's timer nothing runs", async () => {
      const world = await open({ reconcileMs: 60_000 });
      let runs = 0;
      world.engine.start(runOf(world, () => void runs++));
      await sleep(50);
      const stream = await make(world, now());
      await sleep(300);
      expect(runs).toBe(0);
      world.engine.nudge(stream, now());
      await until(() => runs === 1);
    });
  });

  describe("bounds on the Tasks that run", () => {
    /** Which Tasks ran at the same time as each one, with it, by their directories. */
    const observe = (world: World, directories: ReadonlyMap<StreamID, string>, each: () => number) => {
      const now = new Set<StreamID>();
      const most = { all: 0, project: 0 };
      const order: StreamID[] = [];
      const run = runOf(world, async (stream) => {
        now.add(stream);
        order.push(stream);
        const beside = [...now].filter((other) => directories.get(other) === directories.get(stream));
        most.all = Math.max(most.all, now.size);
        most.project = Math.max(most.project, beside.length);
        await sleep(each());
        now.delete(stream);
      });
      return { most, order, run };
    };
    const fill = async (world: World, counts: Record<string, number>) => {
      const directories = new Map<StreamID, string>();
      for (const [directory, count] of Object.entries(counts))
        for (let made = 0; made < count; made++) directories.set(await make(world, now(), directory), directory);
      return directories;
    };

    test.each([
      { bounds: { all: 0, project: 2 }, most: { all: 4, project: 2 } },
      { bounds: { all: 3, project: 0 }, most: { all: 3, project: 3 } },
      { bounds: { all: 2, project: 1 }, most: { all: 2, project: 1 } },
      { bounds: { all: 0, project: 0 }, most: { all: 4, project: 4 } },
    ])("at most $bounds.all in all and $bounds.project of a project, 0: as many as there are places", async (given) => {
      const world = await open({ reconcileMs: 60_000, bounds: given.bounds });
      const directories = await fill(world, { "/p": 20, "/q": 5 });
      // Until as many have met as may, each has time to.
      const { most, order, run } = observe(world, directories, () => (most.all < given.most.all ? 100 : 2));
      world.engine.start(run);
      await until(() => order.length === 25 && world.engine.running() === 0);
      expect(new Set(order).size).toBe(25);
      expect(most).toEqual(given.most);
    });

    test("a long line of one project keeps nobody else waiting, and Tasks that come one by one stay within", async () => {
      const world = await open({ reconcileMs: 60_000, bounds: { all: 0, project: 1 } });
      const directories = await fill(world, { "/p": 20 });
      const { most, order, run } = observe(world, directories, () => 30);
      world.engine.start(run);
      for (let count = 0; count < 10; count++) {
        const due = now("low");
        const stream = await make(world, due, count % 2 === 0 ? "/p" : `/q${count}`);
        directories.set(stream, count % 2 === 0 ? "/p" : `/q${count}`);
        world.engine.nudge(stream, due);
      }
      await until(() => order.filter((stream) => directories.get(stream)?.startsWith("/q")).length === 5);
      expect(order.length).toBeLessThan(20);
      await until(() => order.length === 30 && world.engine.running() === 0);
      expect(most.project).toBe(1);
    });

    test("one that throws and pauses does not hold up the others of its project; what only ends needs no room", async () => {
      const world = await open({ reconcileMs: 200, bounds: { all: 1, project: 1 } });
      const [bad, good] = [await make(world, now("high")), await make(world, now())];
      const gate = Promise.withResolvers<void>();
      const ran: StreamID[] = [];
      const run = runOf(world, async (stream) => {
        ran.push(stream);
        if (stream === good) await gate.promise;
      });
      world.engine.start(async (stream, signal) => {
        if (stream === bad) throw new Error("not now");
        await run(stream, signal);
      });
      await until(() => ran.includes(good));
      const cancelled = await make(world, dueToEnd(new Date()));
      world.engine.nudge(cancelled, dueToEnd(new Date()));
      await until(() => ran.includes(cancelled));
      gate.resolve();
    });
  });

  describe("order", () => {
    const orderOf = async (dues: Record<string, Due>): Promise<string[]> => {
      const world = await open({ maxRunning: 1, reconcileMs: 60_000 });
      const names = new Map<StreamID, string>();
      for (const [name, due] of Object.entries(dues)) names.set(await make(world, due), name);
      const order: string[] = [];
      world.engine.start(runOf(world, (stream) => void order.push(names.get(stream) ?? "")));
      await until(() => order.length === names.size);
      // The next one has a node of this name, too, and what it puts into the queue must be nobody else's.
      worlds.splice(worlds.indexOf(world), 1);
      await close(world);
      return order;
    };
    const ago = (minutes: number, priority: Priority) => dueNow(new Date(Date.now() - minutes * 60_000), priority);

    test("critical first, then high, normal, low", async () => {
      expect(
        await orderOf({
          low: ago(0, "low"),
          normal: ago(0, "normal"),
          critical: ago(0, "critical"),
          high: now("high"),
        }),
      ).toEqual(["critical", "high", "normal", "low"]);
    });

    test("within a priority by the time of waiting", async () => {
      expect(await orderOf({ second: ago(2, "normal"), third: ago(1, "normal"), first: ago(3, "normal") })).toEqual([
        "first",
        "second",
        "third",
      ]);
    });

    test("who waited long enough goes before a higher priority, who did not waits", async () => {
      expect(await orderOf({ normal: ago(0, "normal"), low: ago(11, "low") })).toEqual(["low", "normal"]);
      expect(await orderOf({ low: ago(9, "low"), normal: ago(0, "normal") })).toEqual(["normal", "low"]);
      expect(await orderOf({ high: ago(0, "high"), low: ago(21, "low") })).toEqual(["low", "high"]);
      expect(await orderOf({ old: ago(23 * 60, "normal"), critical: ago(0, "critical") })).toEqual(["critical", "old"]);
    });

    test("a low one is served while normal ones keep coming", async () => {
      let clock = Date.now() - 3_600_000;
      const world = await open({ maxRunning: 1, reconcileMs: 5, now: () => new Date(clock) });
      const low = await make(world, dueNow(new Date(clock), "low"));
      for (let count = 0; count < 3; count++) await make(world, dueNow(new Date(clock), "normal"));
      let before = 0;
      let served = false;
      world.engine.start(
        runOf(world, async (stream) => {
          if (stream === low) served = true;
          else before += 1;
          // A minute goes by with every run, and two more normal ones come: without ageing the low one never runs.
          clock += 60_000;
          if (served || before > 40) return;
          for (let more = 0; more < 2; more++) await make(world, dueNow(new Date(clock), "normal"));
        }),
      );
      await until(() => served || before > 40);
      expect(served).toBe(true);
      expect(before).toBeGreaterThan(2);
    });
  });

  describe("due times", () => {
    test("a stream does not run before its time, and then soon", async () => {
      const world = await open({ reconcileMs: 60_000 });
      let ran = 0;
      world.engine.start(runOf(world, () => void (ran = Date.now())));
      const due = in_(250);
      world.engine.nudge(await make(world, due), due);
      await until(() => ran > 0);
      expect(ran - due.at.getTime()).toBeGreaterThanOrEqual(0);
      expect(ran - due.at.getTime()).toBeLessThan(1_000);
    });

    test("the store's due time is enough; the earliest of many counts", async () => {
      const world = await open({ reconcileMs: 60_000 });
      const dues = [in_(400), in_(200), in_(300)];
      const streams = await Promise.all(dues.map((due) => make(world, due)));
      const ran = new Map<StreamID, number>();
      world.engine.start(runOf(world, (stream) => void ran.set(stream, Date.now())));
      await until(() => ran.size === 3);
      for (const [index, stream] of streams.entries()) {
        const late = (ran.get(stream) ?? 0) - (dues[index]?.at.getTime() ?? 0);
        expect(late).toBeGreaterThanOrEqual(0);
        expect(late).toBeLessThan(1_000);
      }
    });

    test("an announced time is kept though another stream is overdue and rests", async () => {
      const world = await open({ reconcileMs: 60_000 });
      const broken = await make(world, now());
      let ran = 0;
      world.engine.start((stream, signal) => {
        if (stream === broken) throw new Error("broken");
        return runOf(world, () => void ran++)(stream, signal);
      });
      await sleep(50);
      for (const due of [in_(300), in_(100)]) world.engine.nudge(await make(world, due), due);
      await until(() => ran === 2, 900 * backend.patience);
    });
  });

  describe("one handler for a stream", () => {
    test("a mark that comes during a run is honoured right after it, never beside it", async () => {
      const world = await open({ reconcileMs: 60_000 });
      const stream = await make(world, now());
      let inside = 0;
      let most = 0;
      const times: number[] = [];
      world.engine.start(async () => {
        await using claim = await world.store.claim(stream, "test");
        if (claim === undefined) return;
        most = Math.max(most, ++inside);
        times.push(Date.now());
        await world.store.commit({ appends: [], due: [{ stream, due: null }], fence: claim.fence });
        if (times.length === 1) {
          await sleep(100);
          for (let again = 0; again < 5; again++) {
            await mark(world, stream, now());
            world.engine.nudge(stream, now());
          }
          await sleep(100);
        }
        inside -= 1;
      });
      await until(() => times.length === 2);
      expect((times[1] ?? 0) - (times[0] ?? 0)).toBeGreaterThanOrEqual(190);
      expect((times[1] ?? 0) - (times[0] ?? 0)).toBeLessThan(fairMs(600));
      await sleep(100);
      expect({ most, runs: times.length }).toEqual({ most: 1, runs: 2 });
    });

    test("not even while the first is slow to claim", async () => {
      const world = await open({ reconcileMs: 20 });
      const stream = await make(world, now());
      let calls = 0;
      world.engine.start(async (given, signal) => {
        calls += 1;
        await sleep(150);
        await runOf(world, () => undefined)(given, signal);
      });
      for (let times = 0; times < 10; times++) {
        await sleep(20);
        world.engine.nudge(stream, now());
      }
      await until(() => world.engine.running() === 0);
      expect(calls).toBe(1);
    });

    test("a run that leaves its mark standing is not repeated at once; a new mark is", async () => {
      const world = await open({ reconcileMs: 20 });
      let runs = 0;
      const stream = await make(world, now());
      world.engine.start(async () => void runs++);
      await sleep(500);
      expect(runs).toBe(1);
      await mark(world, stream, now());
      world.engine.nudge(stream, now());
      await until(() => runs === 2, 500 * backend.patience);
      await sleep(300);
      expect(runs).toBe(2);
    });
  });

  describe("faults", () => {
    test("a handler that throws stops nothing but its own stream", async () => {
      const errors: { data: object; message: string }[] = [];
      const log: Log = { ...silent, error: (data, message) => void errors.push({ data, message }) };
      const world = await open({ maxRunning: 2, reconcileMs: 60_000, log });
      const broken = new Set<StreamID>();
      while (broken.size < 3) broken.add(await make(world, now("critical")));
      const good = await Promise.all(Array.from({ length: 20 }, () => make(world, now())));
      const ran: StreamID[] = [];
      world.engine.start((stream, signal) => {
        // Two throw at once and leave their marks, one throws later.
        if ([...broken].indexOf(stream) > 0) throw new Error("no bearing");
        return runOf(world, async () => {
          if (broken.has(stream)) throw new Error("no bearing");
          ran.push(stream);
        })(stream, signal);
      });
      await until(() => ran.length === good.length, 900 * backend.patience);
      expect(ran.toSorted()).toEqual(good.toSorted());
      // Where a run takes long to begin, one of them may have thrown twice by then.
      expect(new Set(errors.map(({ data }) => (data as { stream: StreamID }).stream))).toEqual(broken);
      expect(errors.map(({ data }) => data)).toEqual(
        expect.arrayContaining([...broken].map((stream) => expect.objectContaining({ stream, error: "no bearing" }))),
      );
    });

    test("is tried again after 1 s, then after twice as long each time, at most a minute", async () => {
      let clock = Date.now();
      const world = await open({ reconcileMs: 5, now: () => new Date(clock), random: () => 0 });
      const stream = await make(world, dueNow(new Date(clock), "normal"));
      let runs = 0;
      world.engine.start(async () => {
        runs += 1;
        // A new mark is no way around the rest of a stream that throws.
        await mark(world, stream, dueNow(new Date(clock), "critical"));
        throw new Error("no bearing");
      });
      await until(() => runs === 1);
      for (const [index, wait] of [1, 2, 4, 8, 16, 32, 60, 60].entries()) {
        await until(() => world.engine.running() === 0);
        clock += wait * 1000 - 1;
        await sleep(40);
        expect(runs).toBe(index + 1);
        clock += 1;
        await until(() => runs === index + 2, 500 * backend.patience);
      }
    });

    test("a good run ends the series", async () => {
      let clock = Date.now();
      const world = await open({ reconcileMs: 5, now: () => new Date(clock), random: () => 0 });
      const stream = await make(world, dueNow(new Date(clock), "normal"));
      let runs = 0;
      world.engine.start(async () => {
        runs += 1;
        if (runs === 3) await mark(world, stream, dueNow(new Date(clock), "normal"));
        else throw new Error("no bearing");
      });
      await until(() => runs === 1);
      clock += 1000;
      await until(() => runs === 2);
      clock += 2000;
      await until(() => runs === 4);
      await sleep(20);
      clock += 1000;
      await until(() => runs === 5, 500 * backend.patience);
    });

    test("a store that fails for a moment is asked again", async () => {
      const world = await open({});
      let fail = 3;
      const store: Pick<Store, "due" | "nextDue"> = {
        due: async (date, limit) => {
          if (fail-- > 0) throw new Error("disk I/O error");
          return world.store.due(date, limit);
        },
        nextDue: () => world.store.nextDue(),
      };
      await using engine = createLocalEngine({ store, maxRunning: 1, log: silent, reconcileMs: 20 });
      let runs = 0;
      await make(world, now());
      engine.start(runOf(world, () => void runs++));
      await until(() => runs === 1);
    });
  });

  describe("pause", () => {
    test("begins only what ends its stream, whatever was due before; afterwards everything, at once", async () => {
      const world = await open({ reconcileMs: 30, maxRunning: 1 });
      const seen: StreamID[] = [];
      world.engine.pause(true);
      const others = [await make(world, now("critical")), await make(world, now())];
      world.engine.start(runOf(world, (stream) => void seen.push(stream)));
      await sleep(150);
      expect(seen).toEqual([]);
      const ending = await make(world, dueToEnd(new Date()));
      world.engine.nudge(ending, now());
      await until(() => seen.length === 1);
      expect(seen).toEqual([ending]);
      world.engine.pause(false);
      await until(() => seen.length === 3, 500 * backend.patience);
      expect(seen).toEqual([ending, ...others]);
    });

    test("what threw before a pause is not kept waiting after it", async () => {
      const world = await open({ reconcileMs: 60_000 });
      await make(world, now());
      let runs = 0;
      world.engine.start(() => {
        runs += 1;
        return Promise.reject(new Error("no"));
      });
      await until(() => runs === 1);
      world.engine.pause(true);
      await sleep(100);
      expect(runs).toBe(1);
      world.engine.pause(false);
      await until(() => runs === 2, 500 * backend.patience);
    });
  });

  describe("standing aside", () => {
    test("a run that only waits leaves its place to others, and takes it again when it goes on", async () => {
      const world = await open({ reconcileMs: 60_000, maxRunning: 1 });
      const gate = Promise.withResolvers<void>();
      const seen: StreamID[] = [];
      const first = await make(world, now());
      world.engine.start(async (stream, signal) => {
        seen.push(stream);
        if (stream !== first) return ended(signal);
        await gate.promise;
        await ended(signal);
      });
      await until(() => seen.length === 1);
      const others = [await make(world, now()), await make(world, now())];
      for (const stream of others) world.engine.nudge(stream, now());
      await sleep(50);
      // The control: its place is taken.
      expect(seen).toEqual([first]);
      const aside = world.engine.standAside(first);
      await until(() => seen.length === 2);
      expect([seen, world.engine.running()]).toEqual([[first, others[0]], 2]);
      aside[Symbol.dispose]();
      gate.resolve();
      // Now there is one too many, so that the end of one makes no room.
      await world.engine.interrupt(others[0] ?? "");
      await sleep(50);
      expect([seen.length, world.engine.running()]).toEqual([2, 1]);
      using _nothing = world.engine.standAside("task_none");
    });
  });

  describe("draining", () => {
    test("nothing more begins; what waits ends at once, what runs at its next step, and the rest when told to", async () => {
      const world = await open({ reconcileMs: 20, maxRunning: 3 });
      const ends: string[] = [];
      const step = Promise.withResolvers<void>();
      const waits = await make(world, now());
      const works = await make(world, now());
      await make(world, now());
      const begun: StreamID[] = [];
      world.engine.start(async (stream, signal) => {
        begun.push(stream);
        using _aside = stream === waits ? world.engine.standAside(stream) : undefined;
        if (stream === works) {
          await step.promise;
          world.engine.betweenSteps(stream);
        } else await ended(signal);
        ends.push(`${stream === waits ? "waits" : stream === works ? "works" : "long"} ${signal.aborted}`);
      });
      await until(() => begun.length === 3);
      expect(world.engine.drains()).toBe(false);
      // The control: between two steps nothing happens while it does not drain.
      world.engine.betweenSteps(works);
      const over = new AbortController();
      const drained = world.engine.drain(over.signal);
      expect(world.engine.drains()).toBe(true);
      await until(() => ends.length === 1);
      const later = await make(world, now());
      world.engine.nudge(later, now());
      step.resolve();
      await until(() => ends.length === 2);
      await sleep(60);
      expect([begun.includes(later), ends]).toEqual([false, ["waits true", "works true"]]);
      over.abort();
      await drained;
      expect([ends.at(-1), world.engine.running(), begun.includes(later)]).toEqual(["long true", 0, false]);
    });
  });

  describe("interrupt", () => {
    test("aborts the run and resolves when it returned; a new mark runs again at once", async () => {
      const world = await open({ reconcileMs: 60_000 });
      const stream = await make(world, now());
      const steps: string[] = [];
      world.engine.start(async (_stream, signal) => {
        steps.push("in");
        if (steps.length > 1) return;
        await ended(signal);
        await sleep(60);
        steps.push("out");
        signal.throwIfAborted();
      });
      await until(() => steps.length === 1);
      await mark(world, stream, now("critical"));
      await world.engine.interrupt(stream);
      expect(steps).toEqual(["in", "out"]);
      await until(() => steps.length === 3, 500 * backend.patience);
      expect(steps).toEqual(["in", "out", "in"]);
    });

    test("leaves others alone, and is nothing for a stream that does not run", async () => {
      const world = await open({ reconcileMs: 60_000 });
      const [one, two] = [await make(world, now()), await make(world, now())];
      const begun: StreamID[] = [];
      const aborted: StreamID[] = [];
      world.engine.start(async (stream, signal) => {
        begun.push(stream);
        await ended(signal);
        aborted.push(stream);
      });
      await until(() => begun.length === 2);
      await world.engine.interrupt(one);
      await world.engine.interrupt("task_unknown");
      expect(aborted).toEqual([one]);
      await world.engine.interrupt(two);
      expect(aborted).toEqual([one, two]);
    });
  });

  test("a restart takes up what a dead worker held, what was due, and what becomes due", async () => {
    const folder = temp();
    const dead = await backend.open(folder, { shutdownMs: 10 });
    const held = [await make(dead, now()), await make(dead, now())];
    // It claims and never comes back: no release, no end.
    dead.engine.start(async (stream) => {
      await dead.store.claim(stream, "dead");
      await new Promise(() => undefined);
    });
    await until(() => dead.engine.running() === 2);
    await sleep(50);
    const due = await make(dead, now());
    const after = in_(300);
    const later = await make(dead, after);
    await dead.engine[Symbol.asyncDispose]();
    await dead.store[Symbol.asyncDispose]();

    const world = await open({ reconcileMs: 60_000 }, folder);
    const ran = new Map<StreamID, number>();
    world.engine.start(runOf(world, (stream) => void ran.set(stream, now().at.getTime())));
    await until(() => ran.size === 4);
    expect([...ran.keys()].toSorted()).toEqual([...held, due, later].toSorted());
    expect(ran.get(later)).toBeGreaterThanOrEqual(after.at.getTime());
    await until(async () => (await world.store.waiting()) === 0);
  });

  describe("shutdown", () => {
    test("aborts every run, waits for it, and starts nothing more", async () => {
      const world = await open({ maxRunning: 2, reconcileMs: 10 });
      const streams = await Promise.all(Array.from({ length: 5 }, () => make(world, now())));
      const started: StreamID[] = [];
      const returned: StreamID[] = [];
      world.engine.start(async (stream, signal) => {
        started.push(stream);
        await ended(signal);
        await sleep(80);
        returned.push(stream);
      });
      await until(() => started.length === 2);
      await world.engine[Symbol.asyncDispose]();
      expect(returned.toSorted()).toEqual(started.toSorted());
      for (const stream of streams) world.engine.nudge(stream, now());
      await sleep(100);
      expect({ started: started.length, running: world.engine.running() }).toEqual({ started: 2, running: 0 });
      expect(await world.store.waiting()).toBe(5);
    });

    test("does not wait longer than its bound", async () => {
      const warnings: object[] = [];
      const log: Log = { ...silent, warn: (data) => void warnings.push(data) };
      const world = await open({ shutdownMs: 100, log });
      const stream = await make(world, now());
      let begun = false;
      world.engine.start(() => {
        begun = true;
        return new Promise(() => undefined);
      });
      await until(() => begun);
      const begin = Date.now();
      await world.engine[Symbol.asyncDispose]();
      expect(Date.now() - begin).toBeGreaterThanOrEqual(95);
      expect(Date.now() - begin).toBeLessThan(1_000);
      expect(warnings).toEqual([{ streams: [stream] }]);
    });

    test("cannot be started twice", async () => {
      const { engine } = await open();
      engine.start(async () => undefined);
      expect(() => engine.start(async () => undefined)).toThrow("Expected an engine that was not started yet");
    });
  });
});

describe("cost of the local engine", () => {
  const open = async (): Promise<World> => {
    const [local] = backends;
    if (local === undefined) throw new Error("Expected a backend");
    const world = await local.open("", {});
    worlds.push(world);
    return world;
  };
  const counting = (store: Store) => {
    const queries = { due: 0, nextDue: 0, rows: 0 };
    const counted: Pick<Store, "due" | "nextDue"> = {
      async due(date, limit) {
        queries.due += 1;
        const rows = await store.due(date, limit);
        queries.rows += rows.length;
        return rows;
      },
      nextDue() {
        queries.nextDue += 1;
        return store.nextDue();
      },
    };
    return { queries, counted };
  };

  test("idle, it asks once and then only by its timer", async () => {
    const { store } = await open();
    const { queries, counted } = counting(store);
    await using engine = createLocalEngine({ store: counted, maxRunning: 64, log: silent, reconcileMs: 200 });
    engine.start(async () => undefined);
    await sleep(700);
    expect(queries.due).toBeGreaterThanOrEqual(3);
    expect(queries.due).toBeLessThanOrEqual(4);
  });

  test("nudges of one tick are one query, and with every place taken none", async () => {
    const world = await open();
    const { queries, counted } = counting(world.store);
    await using engine = createLocalEngine({ store: counted, maxRunning: 64, log: silent, reconcileMs: 60_000 });
    const due = now();
    const streams: StreamID[] = [];
    for (let batch = 0; batch < 100; batch++)
      streams.push(...(await Promise.all(Array.from({ length: 100 }, () => make(world, due)))));
    let ran = 0;
    const gate = Promise.withResolvers<void>();
    engine.start(async (stream, signal) => {
      await gate.promise;
      await runOf(world, () => void ran++)(stream, signal);
      if (ran === 1_000) await ended(signal);
    });
    for (const stream of streams) engine.nudge(stream, due);
    await until(() => engine.running() === 64);
    expect(queries).toEqual({ due: 1, nextDue: 0, rows: 64 });
    for (const stream of streams) engine.nudge(stream, due);
    await sleep(50);
    expect(queries.due).toBe(1);

    // Ten thousand wait: a run's return reads the few rows it may start, not the line.
    gate.resolve();
    await until(() => ran >= 1_000, 15_000);
    expect(queries.due).toBeLessThanOrEqual(1_001);
    expect(queries.rows).toBeLessThanOrEqual(ran + 200);
  });
});
