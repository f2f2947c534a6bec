import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { TaskStatus, TaskSummary } from "../../../src/protocol/task/status.ts";
import { nothingLeft, processesOf } from "../../crash/process.ts";
import {
  at,
  createTask,
  expectWhole,
  logOf,
  makeLab,
  post,
  send,
  settledTask,
  shell,
  statusOf,
} from "../../harness/double/hostile-text.ts";
import { makeProject, readText, until } from "../../harness/project.ts";
import { startService } from "../../harness/service.ts";
import { mountSmall, type SmallDisk } from "../../harness/small-disk.ts";
import { night, sampleByDay } from "../../harness/night.ts";

/**
 * A disk that is really full: a small file system holds the data folder with its database, blobs and worktrees, and the
 * projects as well. Whatever the filler frees it takes again, and so does another program.
 */

const mib = 1024 ** 2;
const pauseAt = 8 * mib;
const unlimited = { diskFreeBytes: 0, diskFreePercent: 0 };

let lab: Awaited<ReturnType<typeof makeLab>>;
let untilFull: typeof lab;
beforeAll(async () => {
  lab = await makeLab({ ...unlimited, diskPauseBytes: pauseAt });
  // Without `diskPauseBytes`: Tasks pause only when there is no space at all.
  untilFull = await makeLab(unlimited);
});
afterAll(async () => {
  await lab[Symbol.asyncDispose]();
  await untilFull[Symbol.asyncDispose]();
});

type Lab = typeof lab;

/** A command that never gives up. */
const filler = shell("while :; do cat /dev/zero >> fill 2>/dev/null; done");
/**
 * Four commands that leave a mark each time they run; the second is under way when the disk runs full, and needs space.
 */
const marking = [
  shell("echo 1 >> n.txt"),
  shell("sleep 1.5; head -c 300000 /dev/zero > more && rm more && echo 2 >> n.txt"),
  shell("echo 3 >> n.txt"),
  shell("echo 4 >> n.txt"),
];

const started = async (url: string, taskID: string, calls: number): Promise<void> => {
  await until(
    () => logOf(url, taskID),
    (frames) => frames.filter(({ type }) => type === "tool.started").length >= calls,
  );
};

const paused = (url: string, taskID: string): Promise<TaskStatus> =>
  until(
    () => statusOf(url, taskID),
    ({ queue }) => queue?.reason.includes("space on the disk") === true,
  );

const remove = (url: string, taskID: string, directory: string) =>
  send(url, at(`/task/${taskID}`, directory), { method: "DELETE" });

/** How often the provider was asked for each turn of this request. */
const askedOf = ({ provider }: Lab, request: string): number[] => {
  const turns: number[] = [];
  for (const { first, turn } of provider.requests) if (first.includes(request)) turns[turn] = (turns[turn] ?? 0) + 1;
  return turns;
};

/** Nothing was lost, nothing was done twice, nothing is told as failed. */
const expectDoneOnce = async (
  where: Lab,
  url: string,
  taskID: string,
  request: string,
  project: string,
  status = "",
): Promise<void> => {
  const end = await settledTask(url, taskID, 40_000);
  expect(end.error).toBeUndefined();
  expect(end.lifecycleStatus).toBe("completed");
  const log = await logOf(url, taskID);
  const results = log.flatMap((frame) => (frame.type === "tool.finished" ? [frame.data] : []));
  expect(results.filter(({ tool }) => tool === "shell").map(({ outcome, exitCode }) => [outcome, exitCode])).toEqual(
    marking.map(() => ["ok", 0]),
  );
  expect(readText(project, "n.txt")).toBe("1\n2\n3\n4\n");
  expect(askedOf(where, request)).toEqual([1, 1, 1, 1, 1]);
  expect(log.map(({ type }) => type)).toContain("run.resumed");
  expectWhole(project, status);
};

/** What Git leaves of an object that it could not finish. */
const halfObjects = (project: string): string[] =>
  readdirSync(join(project, ".git/objects"), { recursive: true, encoding: "utf8" }).filter((name) =>
    name.includes("tmp_"),
  );

const inPlace = { isolation: "directory" };

const places = [
  { kind: "tmpfs", where: "a worktree", more: {} },
  { kind: "ext4", where: "a worktree", more: {} },
  { kind: "ext4", where: "place", more: inPlace },
] as const;
describe.each(sampleByDay("full disks", places, 1))("$kind, the other Task in $where", ({ kind, more }) => {
  test("cancel and DELETE free the disk; the other Task pauses meanwhile and goes on by itself", {
    timeout: 90_000,
  }, async ({ skip }) => {
    using disk = mountSmall(lab.folder("mount"), kind, 96);
    if (disk === undefined) return skip();
    const dataDir = join(disk.path, "data");
    await using service = await startService(dataDir, { SERVICE_CONFIG: lab.config });
    const { url } = service;
    const directory = makeProject(join(disk.path, "filled"), { "a.txt": "one\n" });
    const project = makeProject(join(disk.path, "project"), { "a.txt": "one\n" });
    const waiting = lab.request(marking);
    const other = await createTask(url, project, { ...waiting, ...more });
    await started(url, other, 2);
    const full = await createTask(url, directory, lab.request([filler]));

    // It pauses, and says why wherever it is shown.
    const status = await paused(url, other);
    expect(status).toMatchObject({ status: "running", lifecycleStatus: "active", phase: "queued" });
    expect(status.queue).toMatchObject({ notBefore: null });
    const { body: list } = await send(url, at("/tasks", project));
    // How much is free changes meanwhile.
    const queue = {
      ...status.queue,
      reason: expect.stringContaining("waits for space on the disk of the data folder"),
    };
    expect(list as unknown as TaskSummary[]).toMatchObject([{ phase: "queued", queue }]);
    // What it has so far is read at once, unless there is no space left for that.
    const diff = await send(url, `/task/${other}/diff`);
    expect([200, 503]).toContain(diff.status);
    if (diff.status === 503) expect(diff.body["code"]).toBe("disk_low");
    disk.fill();
    expect(disk.free()).toBeLessThan(mib);
    const archive = await send(url, at(`/task/${other}/project-archive`, project));
    expect(archive).toMatchObject({ status: 503, body: { code: "disk_low" } });

    // New ones are refused with the remedy, and so is what would only write more.
    const refused = await post(url, "/task", project, { ...lab.request([]), productPillar: "code" });
    expect(refused).toMatchObject({ status: 503, body: { code: "disk_low", retryable: true } });
    expect(refused.body["message"]).toMatch(/free.*Delete ended Tasks/);
    expect(refused.headers.get("retry-after")).toBe("10");
    const message = { source: "test", text: "x".repeat(100_000) };
    const unsaid = await post(url, `/task/${full}/message`, directory, message);
    expect(unsaid).toMatchObject({ status: 503, body: { code: "store_unavailable", retryable: true } });
    expect(unsaid.body["message"]).toContain("free space");
    const before = (await logOf(url, other)).length;

    // Longer than the other's command takes, which would find no space now.
    await new Promise((resolve) => setTimeout(resolve, 1700));

    // The cancel is real: the processes are gone, the end is on record, on a disk that is still full.
    const cancelled = await post(url, `/task/${full}/cancel`, directory, { reason: "it fills the disk" });
    expect(cancelled.status).toBe(202);
    expect(await settledTask(url, full)).toMatchObject({ lifecycleStatus: "cancelled" });
    await until(
      () => Promise.resolve(processesOf(`${dataDir}/${full}`)),
      (pids) => pids.length === 0,
    );
    expect(await paused(url, other)).toMatchObject({ lifecycleStatus: "active" });
    expect((await logOf(url, other)).length).toBe(before);

    const removed = await remove(url, full, directory);
    expect(removed).toMatchObject({ status: 200, body: { taskID: full, deleted: true } });
    expect(existsSync(join(dataDir, "worktrees", full))).toBe(false);
    expect((await send(url, `/task/${full}/status`)).status).toBe(404);
    await expectDoneOnce(lab, url, other, waiting.request, project, more === inPlace ? "?? n.txt" : "");
    expect(halfObjects(directory).concat(halfObjects(project))).toEqual([]);
    // The space is kept back again.
    await until(
      () => Promise.resolve(readdirSync(join(dataDir, "reserve")).length),
      (parts) => parts === 4,
    );
    expect((await send(url, "/health")).body).toMatchObject({ healthy: true });
    await nothingLeft(dataDir);
  });
});

/** The disk is as full as another program can make it, and the Task fills what it can. */
const fillUp = async (disk: SmallDisk, where: Lab, url: string, root: string) => {
  const directory = makeProject(join(root, "filled"), { "a.txt": "one\n" });
  const taskID = await createTask(url, directory, where.request([filler]));
  await paused(url, taskID);
  const undo = disk.fill();
  expect(disk.free()).toBeLessThan(mib);
  return { taskID, directory, undo };
};

test("control: without the space kept back, cancel and DELETE are refused", { timeout: 60_000 }, async ({ skip }) => {
  using disk = mountSmall(lab.folder("mount"), "tmpfs", 96);
  if (disk === undefined) return skip();
  const dataDir = join(disk.path, "data");
  await using service = await startService(dataDir, { SERVICE_CONFIG: lab.config });
  const { url } = service;
  const ended = makeProject(lab.folder(), { "a.txt": "one\n" });
  const done = await createTask(url, ended, lab.request([]));
  await settledTask(url, done);
  const files = readdirSync(join(dataDir, "reserve")).map((name) => join(dataDir, "reserve", name));
  expect(files).toHaveLength(4);
  const { taskID, directory, undo } = await fillUp(disk, lab, url, lab.folder());
  for (const file of files) rmSync(file);
  disk.fill();
  expect((await post(url, `/task/${taskID}/cancel`, directory, {})).status).toBe(503);
  expect((await remove(url, done, ended)).status).toBe(503);
  expect(await statusOf(url, taskID)).toMatchObject({ lifecycleStatus: "active" });
  undo();
  await until(
    () => post(url, `/task/${taskID}/cancel`, directory, {}),
    ({ status }) => status < 300,
  );
  expect(await settledTask(url, taskID)).toMatchObject({ lifecycleStatus: "cancelled" });
});

test("until the disk is full nothing pauses; then a reply and a result in hand wait until they can be written", {
  timeout: 60_000,
}, async ({ skip }) => {
  using disk = mountSmall(untilFull.folder("mount"), "tmpfs", 64);
  if (disk === undefined) return skip();
  const dataDir = join(disk.path, "data");
  await using service = await startService(dataDir, { SERVICE_CONFIG: untilFull.config });
  const { url } = service;
  const [first, ...rest] = marking;
  const project = makeProject(untilFull.folder(), { "a.txt": "one\n" });
  const replying = untilFull.request([first ?? {}, { ...rest[0], latencyMs: 1500 }, ...rest.slice(1)]);
  const slow = await createTask(url, project, replying);
  await until(
    () => Promise.resolve(askedOf(untilFull, replying.request)),
    (turns) => turns.length === 2,
  );
  const calling = makeProject(untilFull.folder(), { "a.txt": "one\n" });
  const running = untilFull.request(marking);
  const other = await createTask(url, calling, running);
  await started(url, other, 2);
  // The call is on record before its command runs, which sleeps first: on a full disk no sandbox would begin.
  await new Promise((resolve) => setTimeout(resolve, 700));
  expect((await statusOf(url, other)).queue).toBeNull();
  const undo = disk.fill();
  expect(disk.free()).toBe(0);
  await paused(url, slow);
  await paused(url, other);
  const before = await Promise.all([slow, other].map(async (taskID) => (await logOf(url, taskID)).length));
  // Longer than the reply and the command take.
  await new Promise((resolve) => setTimeout(resolve, 2500));
  const after = await Promise.all([slow, other].map(async (taskID) => (await logOf(url, taskID)).length));
  expect(after).toEqual(before);
  undo();
  await expectDoneOnce(untilFull, url, slow, replying.request, project);
  await expectDoneOnce(untilFull, url, other, running.request, calling);
});

test("a Mission is aborted and deleted on a full disk", { timeout: 60_000 }, async ({ skip }) => {
  using disk = mountSmall(lab.folder("mount"), "tmpfs", 96);
  if (disk === undefined) return skip();
  const dataDir = join(disk.path, "data");
  await using service = await startService(dataDir, { SERVICE_CONFIG: lab.config });
  const { url } = service;
  const directory = makeProject(lab.folder(), { "a.txt": "one\n" });
  const waking = { text: "plan it", model: "mock/large" };
  const woken = await post(url, "/mission/wake", directory, waking);
  expect(woken.status).toBe(200);
  const missionID = String(woken.body["missionID"]);
  await fillUp(disk, lab, url, lab.folder());
  expect((await post(url, "/mission/wake", directory, { missionID, text: "x".repeat(50_000) })).status).toBe(503);
  const aborted = await post(url, `/mission/${missionID}/abort`, directory, { cascade: true });
  expect(aborted).toMatchObject({ status: 200, body: { aborted: true } });
  const removed = await send(url, at(`/mission/${missionID}`, directory), { method: "DELETE" });
  expect(removed).toMatchObject({ status: 200, body: { deleted: true } });
});

const entry = fileURLToPath(new URL("../../crash/serve.ts", import.meta.url));
type Served = AsyncDisposable & { url: Promise<string>; errors: () => string; ended: Promise<number | string> } & {
  child: ChildProcess;
};

const serve = (dataDir: string, config: string): Served => {
  const child = spawn(process.execPath, [entry, "serve", "--data-dir", dataDir, "--config", config, "--port", "0"], {
    env: {
      PATH: process.env["PATH"],
      HOME: lab.root,
      NODE_NO_WARNINGS: "1",
      SERVICE_LOG_LEVEL: "fatal",
      NO_COLOR: "1",
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let errors = "";
  child.stderr?.on("data", (chunk: Buffer) => {
    errors += chunk.toString();
  });
  const ended = new Promise<number | string>((resolve) =>
    child.once("close", (code, signal) => resolve(code ?? signal ?? "")),
  );
  const url = new Promise<string>((resolve, reject) => {
    let text = "";
    child.stdout?.on("data", (chunk: Buffer) => {
      text += chunk.toString();
      const found = /http:\/\/[\d.]+:\d+/.exec(text)?.[0];
      if (found !== undefined) resolve(found);
    });
    void ended.then((code) => reject(new Error(`ended with ${code}: ${errors}`)));
  });
  url.catch(() => undefined);
  return {
    child,
    url,
    errors: () => errors,
    ended,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await ended;
    },
  };
};

describe.each([
  { signal: "SIGKILL", kind: "tmpfs" },
  ...(night
    ? ([
        { signal: "SIGKILL", kind: "ext4" },
        { signal: "SIGTERM", kind: "tmpfs" },
      ] as const)
    : []),
] as const)("$signal at the full disk, on $kind", ({ signal, kind }) => {
  test("it starts on the full disk, cancels and deletes there, and the other Task goes on", {
    timeout: 90_000,
  }, async ({ skip }) => {
    using disk = mountSmall(lab.folder("mount"), kind, 96);
    if (disk === undefined) return skip();
    const dataDir = join(disk.path, "data");
    const project = makeProject(lab.folder(), { "a.txt": "one\n" });
    const first = serve(dataDir, lab.config);
    let url = await first.url;
    // Its first command is under way when the disk is full.
    const waiting = lab.request([shell("echo 1 >> n.txt; sleep 5"), shell("echo 2 >> n.txt")]);
    const other = await createTask(url, project, waiting);
    await started(url, other, 1);
    const { taskID, directory } = await fillUp(disk, lab, url, lab.folder());
    await paused(url, other);
    first.child.kill(signal);
    expect(await first.ended).toBe(signal === "SIGKILL" ? "SIGKILL" : 0);
    disk.fill();

    await using second = serve(dataDir, lab.config);
    url = await second.url;
    expect(await paused(url, other)).toMatchObject({ lifecycleStatus: "active" });
    const refused = await post(url, "/task", project, { ...lab.request([]), productPillar: "code" });
    expect(refused).toMatchObject({ status: 503, body: { code: "disk_low" } });
    expect((await post(url, `/task/${taskID}/cancel`, directory, {})).status).toBe(202);
    expect(await settledTask(url, taskID)).toMatchObject({ lifecycleStatus: "cancelled" });
    expect((await remove(url, taskID, directory)).status).toBe(200);
    expect(await settledTask(url, other, 40_000)).toMatchObject({ lifecycleStatus: "completed" });
    expect(readText(project, "n.txt")).toBe("1\n2\n");
    expectWhole(project);
    second.child.kill("SIGTERM");
    expect(await second.ended, second.errors()).toBe(0);
  });
});

test("control: without the space kept back the start on a full disk is refused, in one line with the remedy", {
  timeout: 60_000,
}, async ({ skip }) => {
  using disk = mountSmall(lab.folder("mount"), "tmpfs", 96);
  if (disk === undefined) return skip();
  const dataDir = join(disk.path, "data");
  const first = serve(dataDir, lab.config);
  const { directory } = await fillUp(disk, lab, await first.url, lab.folder());
  first.child.kill("SIGKILL");
  await first.ended;
  rmSync(join(dataDir, "reserve"), { recursive: true });
  const undo = disk.fill();
  await using second = serve(dataDir, lab.config);
  expect(await Promise.race([second.ended, second.url])).toBe(78);
  expect(second.errors().trimEnd().split("\n"), second.errors()).toHaveLength(1);
  expect(second.errors()).toMatch(/room|space/);
  undo();
  await using third = serve(dataDir, lab.config);
  const [task] = (await send(await third.url, at("/tasks", directory))).body as unknown as TaskSummary[];
  expect(task).toMatchObject({ lifecycleStatus: "active" });
});
