import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { defaultLimits } from "../../src/protocol/limit.ts";
import { silent } from "../../src/log.ts";
import { createCheckpoints } from "../../src/task/worker/checkpoint.ts";

/** When the files of a Task are kept while its agents work, and what of it stays. */

type Open = { effect: string; sessionID: string };

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const lab = (more: { nodes?: undefined; seconds?: number; bytes?: number } = {}) => {
  const files: { commit: string; done: () => void }[] = [];
  const events: { type: string; version: number; data: { pack: { sha256: string } | null; upTo: number } }[] = [];
  const released: string[] = [];
  const state = {
    repository: { url: "https://git.example/a.git", ref: null },
    remote: null,
    touched: false,
    edits: 0,
    version: 10,
    landingStarted: null,
    landed: null,
    lifecycle: "active",
    open: [] as Open[],
    sessions: [{ sessionID: "ses_fork", fork: { name: "fork" } }],
    checkpoint: null,
    tree: null,
    workspace: { baseCommit: "base" },
  };
  const faults = { keep: false };
  const stop = new AbortController();
  const run = {
    state: () => state,
    stream: "task_1",
    signal: stop.signal,
    limits: { ...defaultLimits, checkpointSeconds: more.seconds ?? 30 },
    log: silent,
    slot: () => Promise.resolve({ [Symbol.dispose]() {} }),
    workspace: () =>
      Promise.resolve({
        prepared: { baseCommit: "base" },
        keep: () =>
          new Promise((resolve, reject) => {
            const commit = `commit${files.length + 1}`;
            if (faults.keep) reject(new Error("git is ill"));
            else files.push({ commit, done: () => resolve({ commit, tree: `tree of ${commit}` }) });
          }),
      }),
    repositories: {
      local: () => ({}),
      packed: () => Promise.resolve(Buffer.alloc(more.bytes ?? 1000)),
    },
    record: ([event]: [(typeof events)[number]]) => {
      state.version += 1;
      events.push({ ...event, version: state.version });
      return Promise.resolve(true);
    },
    store: {
      ...("nodes" in more ? {} : { nodes: { name: "here" } }),
      blobs: { put: () => Promise.resolve({ sha256: `pack${events.length + 1}`, bytes: 1 }) },
      read: (_: string, { after }: { after: number }) =>
        Promise.resolve(events.filter(({ version }) => version > after)),
      orphans: { release: (_: string, blobs: string[]) => Promise.resolve(void released.push(...blobs)) },
    },
  };
  const checkpoints = createCheckpoints(() => run as unknown as ReturnType<Parameters<typeof createCheckpoints>[0]>);
  onTestFinished(() => checkpoints.end());
  return {
    state,
    checkpoints,
    files,
    events,
    released,
    faults,
    /** A turn whose calls have changed files and ended. */
    turn: async () => {
      state.touched = true;
      state.edits += 1;
      state.version += 2;
      checkpoints.look();
      await vi.advanceTimersByTimeAsync(0);
      for (const file of files) file.done();
      await vi.advanceTimersByTimeAsync(0);
    },
  };
};

test("at once after the first turn that changed files, then once in thirty seconds, without another request too", async () => {
  const { turn, checkpoints, files, events, state } = lab();
  checkpoints.look();
  expect(files.length).toBe(0);
  await turn();
  expect(events.map(({ data }) => data.upTo)).toEqual([12]);
  for (let at = 0; at < 9; at += 1) {
    await vi.advanceTimersByTimeAsync(3000);
    await turn();
  }
  expect(events.length).toBe(1);
  const before = state.version;
  await vi.advanceTimersByTimeAsync(3100);
  expect(files.length).toBe(2);
  files.at(-1)?.done();
  await vi.advanceTimersByTimeAsync(0);
  expect(events.map(({ data }) => data.upTo)).toEqual([12, before]);
  // Nothing was changed since.
  await vi.advanceTimersByTimeAsync(300_000);
  checkpoints.look();
  expect(files.length).toBe(2);
});

test("a call that may change files is waited for; one in files of its own, or one that only reads, is not", async () => {
  const { turn, state, files } = lab();
  state.open = [{ effect: "workspace", sessionID: "ses_1" }];
  await turn();
  expect(files.length).toBe(0);
  state.open = [
    { effect: "none", sessionID: "ses_1" },
    { effect: "unknown", sessionID: "ses_fork" },
  ];
  await turn();
  expect(files.length).toBe(1);
});

test("the more was kept, the longer until the next: 64 KiB a second in the mean", async () => {
  const { turn, events } = lab({ bytes: 64 * 1024 * 100 });
  await turn();
  await vi.advanceTimersByTimeAsync(100_000);
  await turn();
  expect(events.length).toBe(1);
  await vi.advanceTimersByTimeAsync(30_000);
  await turn();
  expect(events.length).toBe(2);
});

test("the newest two stay, and another run releases what a killed one did not", async () => {
  const { turn, events, released, checkpoints } = lab({ seconds: 1 });
  for (let at = 0; at < 4; at += 1) {
    await turn();
    await vi.advanceTimersByTimeAsync(1100);
  }
  expect(events.length).toBe(4);
  expect(released).toEqual(["pack1", "pack2"]);
  await checkpoints.release();
  expect(released.length).toBe(2);
  const next = lab();
  next.events.push(...events);
  await next.checkpoints.release();
  expect(next.released).toEqual(["pack1", "pack2"]);
});

test("what is not read when others take the files is given up, and is kept with a later turn", async () => {
  const { state, checkpoints, files, events } = lab();
  state.touched = true;
  state.edits = 1;
  checkpoints.look();
  await vi.advanceTimersByTimeAsync(0);
  expect(files.length).toBe(1);
  const ended = checkpoints.end();
  files[0]?.done();
  await ended;
  await vi.advanceTimersByTimeAsync(0);
  expect(events).toEqual([]);
  await vi.advanceTimersByTimeAsync(31_000);
  checkpoints.look();
  await vi.advanceTimersByTimeAsync(0);
  files[1]?.done();
  await vi.advanceTimersByTimeAsync(0);
  expect(events.length).toBe(1);
});

test("a failure is no failure of the Task, and the next turn is kept", async () => {
  const { turn, faults, events } = lab();
  faults.keep = true;
  await turn();
  faults.keep = false;
  await vi.advanceTimersByTimeAsync(30_000);
  await turn();
  expect(events.length).toBe(1);
});

test.each([
  ["without other nodes", { nodes: undefined }],
  ["where it is switched off", { seconds: 0 }],
])("%s nothing is done", async (_, more) => {
  const { turn, checkpoints, files } = lab(more);
  await turn();
  await vi.advanceTimersByTimeAsync(60_000);
  await checkpoints.now();
  expect(files.length).toBe(0);
});
