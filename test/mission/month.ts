import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { expect } from "vitest";
import type { DomainEvent, StreamID } from "../../src/domain/event.ts";
import { isMission } from "../../src/domain/event.ts";
import { settledEvent } from "../../src/domain/task/end.ts";
import { standingOf } from "../../src/domain/mission/standing.ts";
import { nextStep } from "../../src/domain/mission/next.ts";
import { isRunning } from "../../src/domain/state/mission.ts";
import { isRead } from "../../src/domain/state/stream.ts";
import { createSlots } from "../../src/engine/slot.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { silent } from "../../src/log.ts";
import { createMissions } from "../../src/mission/service.ts";
import { createRunMission } from "../../src/mission/worker/run.ts";
import { type Model, noUsage, type PromptMessage } from "../../src/model/model.ts";
import { defaultLimits } from "../../src/protocol/limit.ts";
import { createCatalog } from "../../src/squad/catalog/catalog.ts";
import { createSquads } from "../../src/squad/revision.ts";
import { createSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import type { Store } from "../../src/store/store.ts";
import { missionWake } from "../../src/task/wake-mission.ts";
import { createTasks } from "../../src/task/service.ts";
import type { Workspaces } from "../../src/workspace/workspace.ts";
import { endlessDisk } from "../harness/disk.ts";
import { temporary } from "../harness/project.ts";
import { type Random, seededRandom } from "../harness/random.ts";
import { noRepositories } from "../harness/repositories.ts";

/**
 * A month of one Mission under a virtual clock: its own code over a real store, its Tasks played. They end, fail, are
 * cancelled and written to at random; its caller wakes and aborts it; the service dies in the middle of its turns.
 */

const minute = 60_000;
const day = 24 * 60 * minute;
const model = "test/month" as const;

type Standing = { phases: { id: string; state: string; attempts: number }[]; running: string[] };

/**
 * Plans ten phases for each text of the user's, dispatches what is ready, tries again what failed. `waits`: with
 * nothing under way it would often rather look again later.
 */
const playAgent = (messages: readonly PromptMessage[], random: Random, waits: boolean) => {
  const texts = messages.filter((message) => message.role === "user" && message.source === "user").length;
  const calls = messages.flatMap((message) => (message.role === "assistant" ? message.calls : []));
  const plans = calls.filter(({ tool }) => tool === "plan");
  const wanted = Math.min(4, texts) * 10;
  const planned = ((plans.at(-1)?.input as { phases?: unknown[] } | undefined)?.phases ?? []).length;
  if (planned < wanted) {
    const phases = Array.from({ length: wanted }, (_, index) => ({
      id: `p${index}`,
      title: `Phase ${index}`,
      objective: "It is there.",
      after: index % 10 > 1 && index % 3 === 0 ? [`p${index - 2}`] : [],
    }));
    return [{ tool: "plan", input: { phases } }];
  }
  const last = messages.findLastIndex(({ role }) => role === "user");
  const results = messages.slice(last + 1).flatMap((message) => (message.role === "tool" ? message.results : []));
  const shown = results.findLast(({ tool, outcome }) => outcome === "ok" && tool === "task_status");
  if (shown === undefined) return [{ tool: "task_status", input: {} }];
  const after = results.slice(results.indexOf(shown) + 1);
  if (after.some(({ tool }) => tool === "finish")) return [{ tool: "task_status", input: {} }];
  const standing = JSON.parse(shown.output) as Standing;
  const open = standing.phases.filter(
    ({ state, attempts }) => state === "ready" || (["failed", "cancelled"].includes(state) && attempts < 3),
  );
  const later = [
    { tool: "finish", input: { outcome: "waiting", summary: "Later.", wakeInMinutes: 1 + random.below(500) } },
  ];
  if (waits && after.length === 0 && standing.running.length === 0 && random.below(2) === 0) return later;
  if (after.length === 0 && open.length > 0)
    return open
      .slice(0, 1 + random.below(4))
      .map(({ id, attempts }) => ({ tool: "dispatch", input: { phase: id, request: `Do ${id}, try ${attempts}` } }));
  if (after.some(({ outcome }) => outcome === "ok") || standing.running.length > 0) return [];
  const left = standing.phases.filter(({ state }) => state !== "done").length;
  if (left > 0 && random.below(3) === 0) return later;
  const input = left === 0 ? { outcome: "done", summary: "All." } : { outcome: "blocked", summary: `${left} left.` };
  return [{ tool: "finish", input }];
};

/**
 * At rest, once a day: it is in a state that its facts bear out, nothing was dispatched twice, and a standstill was
 * said since its agent last heard something.
 */
const checkDay = async (store: Store, stream: StreamID, about: string): Promise<void> => {
  const state = await store.mission(stream);
  if (state === undefined) throw new Error("Expected the Mission, got none.");
  const { state: word } = standingOf(state);
  const running = state.tasks.filter(isRunning).length;
  expect(nextStep(state).kind, about).toBe("sleep");
  if (word === "done" || word === "blocked") expect([state.finished?.outcome, running], about).toEqual([word, 0]);
  else if (word === "waiting") expect(running > 0 || state.finished?.wakeAt != null, about).toBe(true);
  else expect(["aborted", "stalled"], about).toContain(word);
  expect(new Set(state.tasks.map(({ callID }) => callID)).size, about).toBe(state.tasks.length);
  const own = await store.read(stream);
  const since = own.slice(own.findLastIndex(({ version }) => version === state.input));
  const said = since.filter(({ type }) => type === "mission.stalled").length;
  if (word === "stalled") expect(said, about).toBe(1);
};

/** `lose`: at the very end a Task ends without a word to its Mission, for the control. */
export const playMonth = async (
  seed: number,
  { days = 30, lose = false, waits = false } = {},
): Promise<{ ended: number; deaths: number; times: number }> => {
  const random = seededRandom(seed);
  using folder = temporary("sortie-month-");
  let clock = Date.parse("2026-01-01T00:00:00Z");
  const now = () => new Date(clock);
  const end = clock + days * day;
  let deaths = 0;
  /** Requests to the model until the service dies in one. */
  let lives = 5 + random.below(20);
  let die: () => void = () => {};

  const agent: Model = {
    ref: model,
    retries: true,
    window: Number.MAX_SAFE_INTEGER,
    takes: { images: false, pdf: false, tools: true },
    async reply({ messages, signal }) {
      signal.throwIfAborted();
      lives -= 1;
      if (lives <= 0) die();
      signal.throwIfAborted();
      const calls = playAgent(messages, random, waits);
      return { ok: true, text: "", calls, finish: calls.length === 0 ? "end" : "calls", usage: noUsage };
    },
  };

  const project = { directory: folder.path, project: folder.path, git: undefined };
  const workspaces = {
    inspect: () => Promise.resolve(project),
    openHead: () => Promise.reject(new Error("not part of this test")),
    closeHead: () => Promise.resolve(),
    branches: () => {
      throw new Error("not part of this test");
    },
    doom() {},
    remove: async () => {},
  };
  const engine: Engine = {
    nudge() {},
    start() {},
    interrupt: async () => {},
    standAside: () => ({ [Symbol.dispose]() {} }),
    pause() {},
    drain: async () => {},
    drains: () => false,
    betweenSteps() {},
    running: () => 0,
    async [Symbol.asyncDispose]() {},
  };

  const open = async () => {
    const store: Store = await createSqliteStore({
      file: join(folder.path, "log.db"),
      dataDir: folder.path,
      log: silent,
      now,
    });
    const catalog = createCatalog({ dataDir: folder.path, external: [] });
    const tasks = createTasks({
      inspect: (directory) => (workspaces as unknown as Workspaces).inspect(directory),
      inspectNew: (directory) => (workspaces as unknown as Workspaces).inspect(directory),
      store,
      engine,
      workspaces: workspaces as unknown as Workspaces,
      repositories: noRepositories,
      squads: createSquads(store.blobs, catalog),
      resolveModel: () => model,
      archive: () => Promise.reject(new Error("not part of this")),
      disk: endlessDisk,
      callback: (url) => ({ url, shown: url }),
      defaults: { squad: "base", landing: "commit" },
      captures: {
        browser: () => ({ program: undefined, bare: false }),
        slots: createSlots(1),
        network: true,
        tier: 3,
        environment: async () => undefined,
        processes: { setEnvironment: () => ({ [Symbol.dispose]: () => {} }) },
      },
      limits: defaultLimits,
      log: silent,
      now,
    });
    const shared = {
      store,
      tasks,
      workspaces,
      repositories: noRepositories,
      catalog,
      engine,
      disk: endlessDisk,
      limits: defaultLimits,
      log: silent,
      now,
    };
    const missions = createMissions({
      ...shared,
      inspectNew: workspaces.inspect,
      resolveModel: () => model,
      archive: () => Promise.reject(new Error("not part of this")),
      callback: (url) => ({ url, shown: url }),
      production: false,
    });
    const run = createRunMission({
      ...shared,
      models: { load: async () => agent, fallbackModel: async () => undefined },
      slots: createSlots(4),
      permissions: { deny: [], ask: [], allow: [] },
      sandbox: { tier: 3, name: "process-group", network: true },
      setup: undefined,
      environment: async () => undefined,
      processes: { setEnvironment: () => ({ [Symbol.dispose]: () => {} }) },
      browser: () => ({ program: undefined, bare: false }),
      squad: "base",
      production: false,
      worker: `month/${randomUUID()}`,
      recorded() {},
    });
    return { store, tasks, missions, run };
  };

  let world = await open();
  /** When a Task that runs will end. */
  const ends = new Map<StreamID, number>();
  const settle = async (taskID: StreamID, deaf = false) => {
    const state = await world.store.state(taskID);
    ends.delete(taskID);
    if (state === undefined || state.lifecycle !== "active") return;
    const failed = random.below(4) === 0;
    const at = now().toISOString();
    const event: DomainEvent = failed
      ? settledEvent(
          { lifecycleStatus: "failed", failure: { code: "x", message: "It failed.", retryable: true, remedy: null } },
          "",
          at,
        )
      : settledEvent({ lifecycleStatus: "completed" }, "Did it.", at);
    await world.store.commit({
      appends: [{ stream: taskID, expected: state.version, events: [event] }],
      due: [{ stream: taskID, due: null }, ...(deaf ? [] : missionWake(state, [event], now()))],
    });
  };

  /** Runs what is due now; a death in the middle opens the data folder again. */
  const turn = async (): Promise<boolean> => {
    const due = await world.store.due(now(), 500);
    for (const { stream } of due) {
      if (!isMission(stream)) {
        if (!ends.has(stream)) ends.set(stream, clock + (1 + random.below(600)) * minute);
        continue;
      }
      const stop = new AbortController();
      let died = false;
      die = () => {
        died = true;
        lives = 5 + random.below(20);
        stop.abort(new Error("the service died"));
      };
      const { store } = world;
      const run = world.run(stream, stop.signal);
      if (random.below(30) === 0) setImmediate(() => die());
      await run.catch((error: unknown) => {
        if (!died) throw error;
      });
      if (died) {
        deaths += 1;
        await store[Symbol.asyncDispose]();
        world = await open();
      }
      return true;
    }
    return false;
  };

  const quiet = async () => {
    for (let times = 0; await turn(); times += 1)
      if (times > 500) throw new Error("The Mission does not come to rest at one moment.");
  };

  /** When a Task ends, or the Mission wants to look. Tasks are due all the time: they are played, not run. */
  const nextTime = async (): Promise<number> => {
    const due = await world.store.due(new Date(8e15), 500);
    const own = due.flatMap((row) => (isMission(row.stream) ? [row.due.at.getTime()] : []));
    return Math.min(Infinity, ...ends.values(), ...own);
  };

  const directory = folder.path;
  const wake = (text: string) => world.missions.wake(directory, { missionID: "m", text });
  let wakes = 0;
  await wake("Begin.");
  wakes += 1;
  let aborted = false;
  let today = 0;
  while (clock < end) {
    await quiet();
    if (Math.floor(clock / day) > today) {
      today = Math.floor(clock / day);
      await checkDay(world.store, await world.missions.find(directory, "m"), `seed ${seed}, ${now().toISOString()}`);
    }
    // To whatever comes first: a Task's end, a time that the Mission set, a whim of the user's.
    const soonest = await nextTime();
    clock = Math.min(end, Math.max(clock + minute, Math.min(soonest, clock + (1 + random.below(2000)) * minute)));
    for (const [taskID, at] of ends) if (at <= clock) await settle(taskID);
    const [task] = (await world.store.dispatched(await world.missions.find(directory, "m"))).toSorted(
      () => random.below(3) - 1,
    );
    switch (random.below(40)) {
      case 0:
        await wake("More.");
        wakes += 1;
        aborted = false;
        break;
      case 1:
        await world.missions.abort(directory, "m", random.below(4) === 0 ? { cascade: true } : {});
        aborted = true;
        break;
      case 2:
        if (task !== undefined)
          await world.tasks.message(directory, task.taskID, { source: "user", text: "And this." });
        break;
      case 3:
        if (task?.status === "running") await world.tasks.cancel(directory, task.taskID, {});
        break;
      default:
    }
    if (aborted && random.below(10) === 0) {
      await wake("Go on.");
      wakes += 1;
      aborted = false;
    }
  }
  // The month is over: a last word, and everything that still runs comes to its end.
  await wake("How does it stand?");
  wakes += 1;
  for (let times = 0; times < 400; times += 1) {
    await quiet();
    const soonest = await nextTime();
    if (soonest === Infinity) break;
    clock = Math.max(clock + minute, soonest);
    for (const [taskID, at] of ends) if (at <= clock) await settle(taskID);
  }

  if (lose) {
    const [task] = await world.store.dispatched(await world.missions.find(directory, "m"));
    await world.tasks.message(directory, task?.taskID ?? "", { source: "user", text: "Once more." });
    await settle(task?.taskID ?? "", true);
  }
  const stream = await world.missions.find(directory, "m");
  const state = await world.store.mission(stream);
  if (state === undefined) throw new Error("Expected the Mission, got none.");
  const about = `seed ${seed}`;
  expect(nextStep(state), about).toEqual({ kind: "sleep", until: null });
  expect(state.finished, about).not.toBeNull();
  expect(isRead(state), about).toBe(true);
  const rows = await world.store.dispatched(stream);
  expect(rows.map(({ taskID }) => taskID).toSorted(), about).toEqual(
    state.tasks.map(({ taskID }) => taskID).toSorted(),
  );
  expect(new Set(state.tasks.map(({ callID }) => callID)).size, about).toBe(state.tasks.length);
  let ended = 0;
  for (const { taskID, ends: heard } of state.tasks) {
    const facts = await world.store.read(taskID, { types: ["task.settled"] });
    ended += facts.length;
    expect(
      heard.map(({ attempt, outcome }) => [attempt, outcome]),
      `${about}: ${taskID}`,
    ).toEqual(facts.map((fact, index) => [index + 1, fact.type === "task.settled" ? fact.data.lifecycleStatus : ""]));
  }
  const log = await world.store.read(stream, { types: ["mission.woken"] });
  expect(
    log.filter((fact) => fact.type === "mission.woken" && fact.data.by === "user"),
    about,
  ).toHaveLength(wakes);
  await world.store[Symbol.asyncDispose]();
  const times = log.filter((fact) => fact.type === "mission.woken" && fact.data.by === "time").length;
  return { ended, deaths, times };
};
