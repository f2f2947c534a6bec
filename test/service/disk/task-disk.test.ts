import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  createTask,
  expectWhole,
  logOf,
  makeLab,
  post,
  settledTask,
  shell,
} from "../../harness/double/hostile-text.ts";
import { git, makeProject } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** What one Task may have on the disk, with commands that write more. */

const mib = 1024 ** 2;
const limit = 24 * mib;
type Lab = Awaited<ReturnType<typeof makeLab>>;
let lab: Lab;
let unbounded: Lab;
let service: TestService;
let control: TestService;
beforeAll(async () => {
  lab = await makeLab({ taskDiskBytes: limit });
  unbounded = await makeLab({ taskDiskBytes: 0 });
  service = await startService(lab.folder("data"), { SERVICE_CONFIG: lab.config });
  control = await startService(unbounded.folder("data"), { SERVICE_CONFIG: unbounded.config });
});
afterAll(async () => {
  await service.close();
  await control.close();
  await lab[Symbol.asyncDispose]();
  await unbounded[Symbol.asyncDispose]();
});

const project = (where: Lab) => makeProject(where.folder(), { "a.txt": "one\n", ".gitignore": "target\n" });

const resultsOf = async (url: string, taskID: string) =>
  (await logOf(url, taskID)).flatMap((frame) =>
    frame.type === "tool.finished" && typeof frame.data.output === "string"
      ? [{ exitCode: frame.data.exitCode, outcome: frame.data.outcome, output: frame.data.output }]
      : [],
  );

/** 100 MiB, in steps that take a while. */
const writing = (folder: string) =>
  shell(
    `mkdir -p ${folder}; for i in $(seq 100); do head -c 1M /dev/urandom > ${folder}/$i; sleep 0.05; done; echo all`,
  );

test("a command that outgrows it is ended and told; the agent makes room, and the Task completes", {
  timeout: 60_000,
}, async () => {
  const directory = project(lab);
  const turns = [writing("target"), shell("rm -rf target"), shell("echo two > b.txt; echo ok")];
  const taskID = await createTask(service.url, directory, lab.request(turns));
  const end = await settledTask(service.url, taskID, 40_000);
  expect(end.error).toBeUndefined();
  expect(end.lifecycleStatus).toBe("completed");
  const [ended, removed, last] = await resultsOf(service.url, taskID);
  expect(ended).toMatchObject({ outcome: "error", exitCode: null });
  expect(ended?.output).toMatch(/^Stopped after [\d.]+ s, because the Task uses too much disk space\./);
  expect(ended?.output).toMatch(
    /may have 24\.0 MiB there \(limits\.taskDiskBytes\)\. Most of it: target .* MiB\. Remove/,
  );
  expect(ended?.output).not.toContain("all");
  expect(removed).toMatchObject({ outcome: "ok", exitCode: 0 });
  expect(last?.output).not.toContain("MiB");
  expect(git(directory, "show", "HEAD:b.txt")).toBe("two");
  expectWhole(directory);
});

test("control: without a bound the same command runs to its end", { timeout: 60_000 }, async () => {
  const taskID = await createTask(control.url, project(unbounded), unbounded.request([writing("target")]));
  expect(await settledTask(control.url, taskID, 40_000)).toMatchObject({ lifecycleStatus: "completed" });
  expect((await resultsOf(control.url, taskID))[0]?.output).toContain("all");
});

test("a Task that stays above it fails with a code of its own; nothing of it is in the project, and a message goes on", {
  timeout: 60_000,
}, async () => {
  const directory = project(lab);
  const turns = [writing("big"), shell("echo 1"), shell("echo 2"), shell("echo 3"), shell("echo 4")];
  const request = lab.request(turns);
  const taskID = await createTask(service.url, directory, request);
  const end = await settledTask(service.url, taskID, 40_000);
  expect(end).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "disk_exceeded", retryable: false } });
  expect(end.error).toMatch(/take .* MiB on the disk, .* may have 24\.0 MiB .* big .* MiB/);
  expect(end.errorInfo?.remedy).toMatch(/message.*limits\.taskDiskBytes/);
  // Three steps to make room, and no more.
  const results = await resultsOf(service.url, taskID);
  expect(results).toHaveLength(4);
  for (const { output } of results) expect(output).toContain("Remove what is not needed");
  // The tree is where it was, and the project's objects have none of it.
  expect(existsSync(join(service.dataDir, "worktrees", taskID, "big/1"))).toBe(true);
  expect(Number(/size-pack: (\d+)/.exec(git(directory, "count-objects", "-v"))?.[1])).toBe(0);
  expect(Number(/^size: (\d+)/m.exec(git(directory, "count-objects", "-v"))?.[1])).toBeLessThan(1024);
  // What the agents do next is their own: here they do nothing more, so it fails again for the same.
  const message = { source: "test", text: "go on" };
  expect((await post(service.url, `/task/${taskID}/message`, directory, message)).status).toBe(202);
  expect(await settledTask(service.url, taskID, 40_000)).toMatchObject({ errorInfo: { code: "disk_exceeded" } });
});

test("an agent that says it is done with too much of the disk has failed", { timeout: 60_000 }, async () => {
  const directory = project(lab);
  const taskID = await createTask(service.url, directory, lab.request([writing("big")]));
  expect(await settledTask(service.url, taskID, 40_000)).toMatchObject({ errorInfo: { code: "disk_exceeded" } });
  expect(git(directory, "log", "--format=%s")).toBe("first");
});

test("a command in the background and a check are bounded as well", { timeout: 60_000 }, async () => {
  const directory = project(lab);
  const loop = "mkdir -p target; i=0; while :; do i=$((i+1)); head -c 1M /dev/urandom > target/$i; sleep 0.02; done";
  const turns = [
    shell(loop, { background: true }),
    { calls: [{ tool: "process", input: { action: "wait", id: "p1-1", seconds: 30 } }] },
    shell("rm -rf target; echo two > b.txt"),
  ];
  const request = lab.request(turns);
  const taskID = await createTask(service.url, directory, { ...request, checks: [loop] });
  const end = await settledTask(service.url, taskID, 50_000);
  const [, waited] = await resultsOf(service.url, taskID);
  expect(waited?.output).toMatch(/was stopped after [\d.]+ s, because the Task uses too much disk space/);
  expect(end).toMatchObject({ lifecycleStatus: "failed" });
  const checked = (await logOf(service.url, taskID)).flatMap((frame) =>
    frame.type === "check.finished" ? [frame.data] : [],
  );
  expect(checked[0]).toMatchObject({
    state: "failed",
    reason: "was stopped, because the Task uses too much disk space",
  });
});
