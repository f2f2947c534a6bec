import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { type Model, type ModelReply, noUsage } from "../../src/model/model.ts";
import { type Disk, openDisk, type Room } from "../../src/store/disk/disk.ts";
import { DiskFull } from "../../src/store/disk/full.ts";
import type { Store } from "../../src/store/store.ts";
import { unavailable } from "../../src/store/unavailable.ts";
import { GitError } from "../../src/workspace/git/git.ts";
import type { Workspace, Workspaces } from "../../src/workspace/workspace.ts";
import { acceptance } from "../harness/double/mock-provider.ts";
import { makeProject, readText, temporary, until } from "../harness/project.ts";
import { openTaskService, type TaskService } from "../harness/task-service.ts";

/**
 * Runs that pause: the real Tasks, run, engine, watch and store. What the disk has free is the test's to say, and so is
 * whether the store finds room for what is not urgent.
 */

const gib = 1024 ** 3;
const enough: Room = { free: 50 * gib, total: 100 * gib, freeFiles: 1_000_000, files: 2_000_000 };

const writing = (text: string): ModelReply => ({
  ok: true,
  text: "",
  calls: [{ tool: "shell", input: { command: `echo ${text} >> n.txt` } }],
  finish: "calls",
  usage: noUsage,
});
const done: ModelReply = { ok: true, text: "Done.", calls: [], finish: "end", usage: noUsage };
/** A reviewer accepts whatever it is given. */
const accepting = (brief: string): ModelReply => ({
  ok: true,
  text: "",
  calls: acceptance({ first: brief }).calls ?? [],
  finish: "calls",
  usage: noUsage,
});

type World = TaskService & {
  folder: string;
  disk: Disk;
  directory: string;
  free(bytes: number): Promise<void>;
  /** Nothing but urgent writes finds room; `urgent`: neither does that. */
  fill(urgent?: boolean): void;
  empty(): Promise<void>;
  /** Requests to the model that wait for an answer, and all so far. */
  held: ((reply: ModelReply) => void)[];
  asked(): number;
  /** What the store refused. */
  refused: number;
};

const closing: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

type Options = {
  maxRunning?: number;
  workspaces?: (workspaces: Workspaces) => Workspaces;
  /** What a deletion finds no room for. */
  erase?: () => void;
};

const open = async ({ maxRunning, workspaces, erase }: Options = {}): Promise<World> => {
  const root = temporary("sortie-pause-");
  const held: World["held"] = [];
  let asked = 0;
  let room = enough;
  let full: "no" | "but urgent" | "all" = "no";
  const model: Model = {
    ref: "test/held",
    retries: true,
    window: 100_000,
    takes: { images: false, pdf: false, tools: true },
    reply({ messages: [first], tools, signal }) {
      if (tools.some(({ name }) => name === "verdict"))
        return Promise.resolve(accepting(first?.role === "user" ? first.text : ""));
      asked += 1;
      const { promise, resolve, reject } = Promise.withResolvers<ModelReply>();
      held.push(resolve);
      signal.addEventListener("abort", () => reject(signal.reason as Error));
      return promise;
    },
  };
  const disk = await openDisk({
    dataDir: root.path,
    limits: { diskFreeBytes: gib, diskFreePercent: 5, diskPauseBytes: gib / 2 },
    log: silent,
    measure: () => Promise.resolve(room),
  });
  const world = { refused: 0 };
  const store = (real: Store): Store => {
    const admit = (urgent = false): void => {
      if (full === "no" || (urgent && full === "but urgent")) return;
      world.refused += 1;
      const error = new DiskFull();
      disk.report(error);
      throw unavailable(error);
    };
    return {
      ...real,
      blobs: {
        ...real.blobs,
        async put(bytes, exact) {
          admit();
          return real.blobs.put(bytes, exact);
        },
      },
      async commit(write) {
        admit(write.urgent);
        return real.commit(write);
      },
      async erase(stream, expected) {
        erase?.();
        return real.erase(stream, expected);
      },
      async claim(stream, worker, urgent) {
        admit(urgent);
        return real.claim(stream, worker, urgent);
      },
    };
  };
  const service = await openTaskService({
    folder: root.path,
    model,
    disk,
    ...(maxRunning === undefined ? {} : { maxRunning }),
    before: { store, ...(workspaces === undefined ? {} : { workspaces }) },
  });
  closing.push(
    () => root[Symbol.dispose](),
    async () => disk[Symbol.asyncDispose](),
    () => service.crash(),
  );
  const change = (free: number, now: typeof full) => {
    room = { ...enough, free };
    full = now;
    return disk.look();
  };
  return Object.assign(world, service, {
    disk,
    folder: root.path,
    directory: makeProject(join(root.path, "..", `${root.path}-project`), { "a.txt": "one\n" }),
    held,
    asked: () => asked,
    free: (bytes: number) => change(bytes, "no"),
    fill(urgent = false) {
      room = { ...enough, free: 0 };
      full = urgent ? "all" : "but urgent";
      disk.report(new DiskFull());
    },
    empty: () => change(enough.free, "no"),
  });
};

const create = async ({ tasks, directory }: World, checks: string[] = []): Promise<string> =>
  (await tasks.create(directory, { request: "do it", productPillar: "code", checks })).body.taskID;

const answer = async ({ held }: World, reply: ModelReply): Promise<void> => {
  await until(
    () => Promise.resolve(held.length),
    (count) => count > 0,
  );
  held.shift()?.(reply);
};

const typesOf = async ({ store }: World, taskID: string): Promise<string[]> =>
  (await store.read(taskID)).map(({ type }) => type);

const event = (world: World, taskID: string, type: string, count = 1) =>
  until(
    () => typesOf(world, taskID),
    (types) => types.filter((each) => each === type).length >= count,
  );

const ended = (world: World, taskID: string) =>
  until(
    () => world.tasks.status(taskID),
    ({ status }) => status === "inactive",
  );

const quiet = () => new Promise((resolve) => setTimeout(resolve, 300));

test("below diskPauseBytes no model is asked and no command begun; the pause is on record, and takes no time", async () => {
  const world = await open();
  const taskID = await create(world);
  await answer(world, writing("one"));
  await event(world, taskID, "tool.finished");
  await until(
    () => Promise.resolve(world.asked()),
    (asked) => asked === 2,
  );
  await world.free(gib / 4);
  await event(world, taskID, "run.paused");
  expect(await world.tasks.status(taskID)).toMatchObject({
    lifecycleStatus: "active",
    phase: "queued",
    queue: { position: 1, notBefore: null, reason: expect.stringContaining("space on the disk") as unknown },
  });
  // The reply that was under way is kept; what it calls is begun only if it writes nothing, and the model not asked.
  await answer(world, {
    ...writing("two"),
    calls: [
      { tool: "read", input: { path: "a.txt" } },
      { tool: "write", input: { path: "m.txt", content: "m" } },
      { tool: "shell", input: { command: "echo two >> n.txt" } },
    ],
  });
  await event(world, taskID, "tool.finished", 2);
  await quiet();
  expect(await typesOf(world, taskID)).not.toContain("run.resumed");
  expect((await typesOf(world, taskID)).filter((type) => type === "tool.finished")).toHaveLength(2);
  const { time } = (await world.store.state(taskID)) ?? {};
  expect(time?.since).toBeNull();
  await world.empty();
  await event(world, taskID, "tool.finished", 4);
  await until(
    () => Promise.resolve(world.held.length),
    (count) => count > 0,
  );
  // A reply that calls nothing but what reads.
  await world.free(gib / 4);
  await answer(world, { ...writing(""), calls: [{ tool: "read", input: { path: "n.txt" } }] });
  await event(world, taskID, "tool.finished", 5);
  await quiet();
  expect(world.asked()).toBe(3);
  await world.empty();
  await answer(world, done);
  expect(await ended(world, taskID)).toMatchObject({ lifecycleStatus: "completed" });
  expect(readText(world.directory, "n.txt")).toBe("one\ntwo\n");
  expect(world.asked()).toBe(4);
  expect(world.refused).toBe(0);
});

test("a reply that cannot be written waits for space, and the model is not asked again", async () => {
  const world = await open();
  const taskID = await create(world);
  await event(world, taskID, "workspace.prepared");
  const before = await typesOf(world, taskID);
  world.fill();
  await answer(world, writing("one"));
  await quiet();
  expect(await typesOf(world, taskID)).toEqual(before);
  // Although nothing could be written, it shows.
  expect(await world.tasks.status(taskID)).toMatchObject({
    phase: "queued",
    queue: { reason: expect.stringContaining("space on the disk") as unknown },
  });
  expect(world.refused).toBeGreaterThan(0);
  await world.empty();
  await event(world, taskID, "tool.finished");
  await answer(world, done);
  expect(await ended(world, taskID)).toMatchObject({ lifecycleStatus: "completed" });
  expect(world.asked()).toBe(2);
  expect(await typesOf(world, taskID)).toContain("run.resumed");
});

test("a cancel ends a paused Task on a full disk, and others have its place", async () => {
  const world = await open({ maxRunning: 1 });
  const first = await create(world);
  await event(world, first, "workspace.prepared");
  world.fill();
  await until(
    () => world.tasks.status(first),
    ({ queue }) => queue !== null,
  );
  // The one place is the paused Task's, and its own end needs it.
  expect((await world.tasks.cancel(world.directory, first, {})).status).toBe(202);
  expect(await ended(world, first)).toMatchObject({ lifecycleStatus: "cancelled" });
  await world.tasks.remove(world.directory, first);
  await expect(world.tasks.status(first)).rejects.toMatchObject({ code: "task_not_found" });
});

test.each([
  { name: "has the space that its worktree takes", tries: 1, code: undefined },
  { name: "is refused where that does not do: the control", tries: 2, code: "store_unavailable" },
])("a deletion whose log is longer than what is kept back $name", async ({ tries, code }) => {
  let left = 0;
  const world = await open({
    erase() {
      left -= 1;
      if (left >= 0) throw unavailable(new DiskFull());
    },
  });
  const taskID = await create(world);
  await answer(world, writing("one"));
  await answer(world, done);
  await ended(world, taskID);
  const worktree = join(world.folder, "worktrees", taskID);
  expect(existsSync(worktree)).toBe(true);
  left = tries;
  const removed = await world.tasks.remove(world.directory, taskID).then(
    () => undefined,
    (error: unknown) => (error as { code?: string }).code,
  );
  expect([removed, existsSync(worktree)]).toEqual([code, false]);
  // Said again, it is done.
  if (code !== undefined) await world.tasks.remove(world.directory, taskID);
  await expect(world.tasks.status(taskID)).rejects.toMatchObject({ code: "task_not_found" });
});

test("control: where not even an urgent write finds room, the cancel is refused", async () => {
  const world = await open();
  const taskID = await create(world);
  await event(world, taskID, "workspace.prepared");
  world.fill(true);
  const refused = { code: "store_unavailable", message: expect.stringContaining("Cancel and delete") as unknown };
  await expect(world.tasks.cancel(world.directory, taskID, {})).rejects.toMatchObject(refused);
  await world.empty();
  await world.tasks.cancel(world.directory, taskID, {});
  expect(await ended(world, taskID)).toMatchObject({ lifecycleStatus: "cancelled" });
});

test("a Task that was begun before a paused one can be cancelled, too, with one place for all", async () => {
  const world = await open({ maxRunning: 1 });
  const asking = await create(world);
  const question: ModelReply = {
    ...writing(""),
    calls: [{ tool: "ask", input: { question: "Which?", options: ["a", "b"] } }],
  };
  await answer(world, question);
  await until(
    () => world.tasks.status(asking),
    ({ pending }) => pending.length === 1,
  );
  const other = await create(world);
  await event(world, other, "workspace.prepared");
  world.fill();
  await quiet();
  await world.tasks.cancel(world.directory, asking, {});
  expect(await ended(world, asking)).toMatchObject({ lifecycleStatus: "cancelled" });
  expect(await world.tasks.status(other)).toMatchObject({ lifecycleStatus: "active" });
  await world.empty();
  await answer(world, done);
  expect(await ended(world, other)).toMatchObject({ lifecycleStatus: "completed" });
});

test("what waits is not begun while the disk is short, and is when it is not", async () => {
  const world = await open({ maxRunning: 1 });
  const first = await create(world);
  await event(world, first, "workspace.prepared");
  const second = await create(world);
  world.fill();
  await quiet();
  expect(await typesOf(world, second)).toEqual(["task.created"]);
  expect(await world.tasks.status(second)).toMatchObject({
    phase: "queued",
    queue: { reason: expect.stringContaining("space on the disk") as unknown },
  });
  await world.empty();
  await answer(world, done);
  await answer(world, done);
  expect(await ended(world, first)).toMatchObject({ lifecycleStatus: "completed" });
  expect(await ended(world, second)).toMatchObject({ lifecycleStatus: "completed" });
});

test("a check that fails around a pause runs again; what else it says stands", async () => {
  const world = await open();
  // It fails where more than a second goes by within it.
  const quick = "begun=$(date +%s%N); sleep 0.3; [ $(($(date +%s%N) - begun)) -lt 1000000000 ]";
  const taskID = await create(world, [quick]);
  await answer(world, writing("one"));
  await answer(world, done);
  await event(world, taskID, "check.started");
  await world.free(gib / 4);
  await new Promise((resolve) => setTimeout(resolve, 1500));
  await world.empty();
  expect(await ended(world, taskID)).toMatchObject({ lifecycleStatus: "completed" });
  const results = (await world.store.read(taskID)).flatMap((fact) =>
    fact.type === "check.finished" ? [fact.data] : [],
  );
  expect(results).toMatchObject([{ state: "passed" }]);
  expect(results[0]?.flaky).toBeUndefined();
});

const noSpace = "error: unable to write file a: No space left on device\n";

/** The first commit of a worktree fails so, after `first`. */
const failingOnce = (stderr: string, first: () => Promise<unknown> = () => Promise.resolve()) => {
  let failed = false;
  const fail = (workspace: Workspace): Workspace => {
    const commit = workspace.commit.bind(workspace);
    workspace.commit = async (message) => {
      if (failed) return commit(message);
      failed = true;
      await first();
      throw new GitError("git add ended with exit code 128", 128, stderr);
    };
    return workspace;
  };
  return (workspaces: Workspaces): Workspaces => ({
    ...workspaces,
    prepare: async (request) => fail(await workspaces.prepare(request)),
  });
};

test("a step that Git found no room for is done again, from its beginning, when there is space", async () => {
  let short = () => Promise.resolve();
  const world = await open({ workspaces: failingOnce(noSpace, () => short()) });
  short = () => world.free(gib / 4);
  const taskID = await create(world);
  await answer(world, writing("one"));
  await answer(world, done);
  await event(world, taskID, "run.paused");
  await quiet();
  expect(await world.tasks.status(taskID)).toMatchObject({ lifecycleStatus: "active", phase: "queued" });
  await world.empty();
  expect(await ended(world, taskID)).toMatchObject({ lifecycleStatus: "completed" });
  expect(readText(world.directory, "n.txt")).toBe("one\n");
  expect(world.asked()).toBe(2);
});

test.each([
  ["with less than the step needs, though the disk is not full", noSpace, "disk_low"],
  ["control: for another reason", "fatal: it is broken\n", "internal"],
])("a step fails %s", async (_name, stderr, code) => {
  const world = await open({ workspaces: failingOnce(stderr) });
  const taskID = await create(world);
  await answer(world, writing("one"));
  await answer(world, done);
  const end = await ended(world, taskID);
  expect(end).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code, retryable: true } });
});
