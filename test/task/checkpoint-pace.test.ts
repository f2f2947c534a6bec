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

const lab = (more: { nodes?: undefined; seconds?: number; drains?: boolean; bytes?: number } = {}) => {
  const files: { commit: string; done: () => void }[] = [];
  type Fork = { name: string; commit: string; upTo: number };
  type Kept = { commit: string; pack: { sha256: string } | null; upTo: number; whole?: boolean; forks?: Fork[] };
  const events: { type: string; version: number; data: Kept }[] = [];
  const packs: string[][] = [];
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
    sessions: [
      {
        sessionID: "ses_fork",
        fork: { name: "fork", commit: "begun", tree: "tree of begun" },
        end: null as object | null,
        usage: { toolCalls: 0 },
      },
    ],
    checkpoint: null as object | null,
    tree: null,
    workspace: { baseCommit: "base", baseTree: "tree of base" },
  };
  const faults = { keep: false };
  const remote = { asked: 0, whole: false };
  /** What the agent with its own files has changed, as a commit of it. */
  const own = { commit: undefined as string | undefined };
  const stop = new AbortController();
  const run = {
    state: () => state,
    stream: "task_1",
    signal: stop.signal,
    limits: { ...defaultLimits, checkpointSeconds: more.seconds ?? 30 },
    engine: { drains: () => more.drains ?? false },
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
    workspaces: {
      fork: () =>
        Promise.resolve({
          keep: (_: string, known: string | undefined) => {
            const { commit } = own;
            const tree = `tree of ${commit}`;
            return Promise.resolve(commit === undefined || tree === known ? undefined : { commit, tree });
          },
        }),
    },
    repositories: {
      local: () => ({}),
      refresh: () => Promise.resolve(void (remote.asked += 1)),
      packed: (_: object, { commits }: { commits: string[] }) => {
        packs.push(commits);
        const pack = { bytes: more.bytes ?? 1000, whole: remote.whole, pieces: () => [] };
        return Promise.resolve({ ...pack, [Symbol.asyncDispose]: () => Promise.resolve() });
      },
    },
    record: ([event]: [(typeof events)[number]]) => {
      state.version += 1;
      events.push({ ...event, version: state.version });
      state.checkpoint = event.data;
      return Promise.resolve(true);
    },
    store: {
      ...("nodes" in more ? {} : { nodes: { name: "here" } }),
      blobs: { write: () => Promise.resolve({ sha256: `pack${events.length + 1}`, bytes: 1 }) },
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
    packs,
    remote,
    /** A call of the agent with its own files has ended, which has made them this commit. */
    forkTurn: async (commit: string) => {
      own.commit = commit;
      const [session] = state.sessions;
      if (session !== undefined) session.usage.toolCalls += 1;
      state.version += 2;
      checkpoints.keepIfDue();
      await vi.advanceTimersByTimeAsync(0);
      for (const file of files) file.done();
      await vi.advanceTimersByTimeAsync(0);
    },
    /** A turn whose calls have changed files and ended. */
    turn: async () => {
      state.touched = true;
      state.edits += 1;
      state.version += 2;
      checkpoints.keepIfDue();
      await vi.advanceTimersByTimeAsync(0);
      for (const file of files) file.done();
      await vi.advanceTimersByTimeAsync(0);
    },
  };
};

test("at once after the first turn that changed files, then once in thirty seconds, without another request too", async () => {
  const { turn, checkpoints, files, events, state } = lab();
  checkpoints.keepIfDue();
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
  checkpoints.keepIfDue();
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
  checkpoints.keepIfDue();
  await vi.advanceTimersByTimeAsync(0);
  expect(files.length).toBe(1);
  const ended = checkpoints.end();
  files[0]?.done();
  await ended;
  await vi.advanceTimersByTimeAsync(0);
  expect(events).toEqual([]);
  await vi.advanceTimersByTimeAsync(31_000);
  checkpoints.keepIfDue();
  await vi.advanceTimersByTimeAsync(0);
  files[1]?.done();
  await vi.advanceTimersByTimeAsync(0);
  expect(events.length).toBe(1);
});

test("files of agents that work in their own are kept beside the Task's, each as far as it is", async () => {
  const { turn, forkTurn, events, packs, state } = lab({ seconds: 1 });
  await forkTurn("fork1");
  expect(events.map(({ data }) => data)).toMatchObject([
    { commit: "commit1", forks: [{ name: "fork", commit: "fork1", tree: "tree of fork1", upTo: 12 }] },
  ]);
  expect(packs).toEqual([["commit1", "fork1"]]);
  // In the middle of a change: what was kept before stays, up to where it was.
  state.open = [{ effect: "workspace", sessionID: "ses_fork" }];
  await vi.advanceTimersByTimeAsync(1100);
  await turn();
  expect(events.at(-1)?.data).toMatchObject({ commit: "commit2", forks: [{ commit: "fork1", upTo: 12 }] });
  state.open = [];
  await vi.advanceTimersByTimeAsync(1100);
  await forkTurn("fork2");
  expect(events.at(-1)?.data).toMatchObject({ forks: [{ commit: "fork2", upTo: state.version - 1 }] });
  // Once it has ended, its files are the Task's or nobody's.
  for (const session of state.sessions) session.end = {};
  await vi.advanceTimersByTimeAsync(1100);
  await turn();
  expect(events.at(-1)?.data.forks).toBeUndefined();
});

test("nothing is read while somebody moves the files from commit to commit", async () => {
  const { turn, files, checkpoints } = lab({ seconds: 1 });
  {
    using _still = await checkpoints.hold();
    await turn();
    await vi.advanceTimersByTimeAsync(2000);
    expect(files.length).toBe(0);
  }
  await turn();
  expect(files.length).toBe(1);
});

test("the remote is asked whether it still has what a pack leaves out", async () => {
  const { turn, events, remote } = lab();
  await turn();
  expect([remote.asked, events.at(-1)?.data.whole]).toEqual([1, undefined]);
  remote.whole = true;
  await vi.advanceTimersByTimeAsync(31_000);
  await turn();
  expect([remote.asked, events.at(-1)?.data.whole]).toEqual([2, true]);
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

test("where it is switched off all the same what a node that drains hands over", async () => {
  const { turn, files } = lab({ seconds: 0, drains: true });
  await turn();
  expect(files.length).toBe(1);
});
