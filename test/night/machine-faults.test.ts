import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { processesOf } from "../crash/process.ts";
import { git, makeProject, until } from "../harness/project.ts";
import {
  createTask,
  expectWhole,
  logOf,
  makeLab,
  post,
  send,
  settledTask,
  shell,
  statusOf,
} from "../harness/double/hostile-text.ts";
import { built, compileCache } from "../harness/built.ts";
import { alwaysHolds } from "../harness/invariants.ts";
import { startService } from "../harness/service.ts";

/** Bad luck: disks that are full, folders that go, files that are broken, ends at any moment. */

let lab: Awaited<ReturnType<typeof makeLab>>;
const undo: (() => void)[] = [];
beforeAll(async () => {
  await built();
  lab = await makeLab({ diskFreeBytes: 0, diskFreePercent: 0 });
});
afterAll(async () => {
  for (const step of undo) step();
  await lab[Symbol.asyncDispose]();
});

const asRoot = (line: string) => execFileSync("bash", ["-c", line], { stdio: "ignore" });

/** A small file system of its own; undefined where that is not allowed. */
const mountSmall = (size: string): string | undefined => {
  const folder = lab.folder("mount");
  mkdirSync(folder);
  try {
    asRoot(`mount -t tmpfs -o size=${size} tmpfs ${folder}`);
  } catch {
    console.warn("SKIPPED: no tmpfs can be mounted here, so a full disk was not tried");
    return undefined;
  }
  undo.push(() => asRoot(`umount -l ${folder}`));
  return folder;
};

const entry = fileURLToPath(new URL("../../bin/sortie.js", import.meta.url));
type Served = { child: ChildProcess; url: Promise<string>; errors: () => string; ended: Promise<number | string> };
const serve = (dataDir: string, ...args: string[]): Served => {
  const child = spawn(process.execPath, [entry, "serve", "--data-dir", dataDir, "--config", lab.config, ...args], {
    env: {
      PATH: process.env["PATH"],
      HOME: lab.root,
      NODE_NO_WARNINGS: "1",
      SERVICE_LOG_LEVEL: "fatal",
      NO_COLOR: "1",
      ...compileCache,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  undo.push(() => child.kill("SIGKILL"));
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
  return { child, url, errors: () => errors, ended };
};
const project = () => makeProject(lab.folder(), { "a.txt": "one\n" });
const oneLine = (text: string) => expect(text.trimEnd().split("\n"), text).toHaveLength(1);

test("a full disk: refused with 503, nothing acknowledged is lost, and it goes on when there is room", {
  timeout: 90_000,
}, async ({ skip }) => {
  const folder = mountSmall("12m");
  if (folder === undefined) return skip();
  const dataDir = join(folder, "data");
  const served = serve(dataDir, "--port", "0");
  const url = await served.url;
  const directory = project();
  const tasks = new Map<string, string>();
  const before = await createTask(
    url,
    directory,
    lab.request([shell("sleep 3; echo n > n.txt"), { text: "x".repeat(50_000) }]),
  );
  tasks.set(before, directory);
  await until(
    () => logOf(url, before),
    (frames) => frames.some(({ type }) => type === "tool.started"),
  );
  const filler = join(folder, "filler");
  execFileSync("bash", ["-c", `cat /dev/zero > ${filler} 2>/dev/null || true`]);
  const refused: number[] = [];
  for (let count = 0; count < 60; count += 1) {
    const answer = await post(url, "/task", directory, {
      request: `run [x] ${"y".repeat(100_000)}`,
      productPillar: "code",
      model: "mock/large",
    });
    if (answer.status === 202) tasks.set(String(answer.body["taskID"]), directory);
    else {
      refused.push(answer.status);
      expect(answer.body["message"]).toEqual(expect.any(String));
    }
  }
  expect(refused.length).toBeGreaterThan(0);
  expect(new Set(refused)).toEqual(new Set([503]));
  // Reads are served all the while.
  for (const taskID of tasks.keys()) await statusOf(url, taskID);
  await wait(3000);
  expect((await send(url, "/health")).status).toBeLessThan(600);
  rmSync(filler);
  const again = await until(
    () => post(url, "/task", directory, { ...lab.request([]), productPillar: "code" }),
    ({ status }) => status === 202,
  );
  tasks.set(String(again.body["taskID"]), directory);
  for (const taskID of tasks.keys()) await settledTask(url, taskID, 60_000);
  expect(await statusOf(url, String(again.body["taskID"]))).toMatchObject({ lifecycleStatus: "completed" });
  await alwaysHolds({ url, dataDir, tasks });
  expectWhole(directory);
  served.child.kill("SIGTERM");
  expect(await served.ended).toBe(0);
});

describe("what a Task needs goes away under it", () => {
  const scenes: [name: string, how: (place: { directory: string; worktree: string; dataDir: string }) => void][] = [
    ["the project", ({ directory }) => renameSync(directory, `${directory}-gone`)],
    ["the worktree", ({ worktree }) => rmSync(worktree, { recursive: true })],
    [
      "the worktree and then the project",
      ({ directory, worktree }) => {
        rmSync(worktree, { recursive: true });
        rmSync(directory, { recursive: true });
      },
    ],
    ["the repository of the project", ({ directory }) => rmSync(join(directory, ".git"), { recursive: true })],
    ["every blob", ({ dataDir }) => rmSync(join(dataDir, "blobs"), { recursive: true })],
    ["the folder of worktrees", ({ dataDir }) => rmSync(join(dataDir, "worktrees"), { recursive: true })],
    ["nothing: the control", () => undefined],
  ];
  test.each(scenes)("%s", { timeout: 40_000 }, async (name, how) => {
    const dataDir = lab.folder("data");
    await using service = await startService(dataDir, { SERVICE_CONFIG: lab.config });
    const directory = project();
    const { request, model } = lab.request([
      shell("sleep 0.6; echo n > n.txt"),
      {
        calls: [
          { tool: "read", input: { path: "a.txt" } },
          { tool: "write", input: { path: "m.txt", content: "m" } },
        ],
      },
      shell("echo o > o.txt"),
    ]);
    const body = { request: `${request} ${"z".repeat(100_000)}`, model, checks: ["test -f a.txt"] };
    const taskID = await createTask(service.url, directory, body);
    await until(
      () => logOf(service.url, taskID),
      (frames) =>
        frames.some(({ type }) => type === "workspace.prepared") && frames.some(({ type }) => type === "tool.started"),
    );
    how({ directory, worktree: join(dataDir, "worktrees", taskID), dataDir });
    const first = await settledTask(service.url, taskID, 20_000);
    // A run loads each message once, and this one had: only the next one misses what is gone.
    if (name === "every blob") {
      expect(first, first.error).toMatchObject({ lifecycleStatus: "completed" });
      await post(service.url, `/task/${taskID}/message`, directory, { source: "luck", text: "and more" });
    }
    const status = await settledTask(service.url, taskID, 20_000);
    if (name === "every blob") expect(status.errorInfo?.code).toBe("text_lost");
    if (name.startsWith("nothing")) expect(status).toMatchObject({ lifecycleStatus: "completed" });
    else {
      expect(status.lifecycleStatus, status.error).toBe("failed");
      expect(status.error).toMatch(/^[A-Z].{10,}/);
      console.log(`${name}: ${status.errorInfo?.code}: ${status.error?.slice(0, 300)}`);
      expect(`${status.errorInfo?.code} ${status.error}`).not.toMatch(/^internal|ENOENT|undefined/);
    }
    // The service lives, and takes work for other projects.
    const other = await createTask(service.url, project(), lab.request([shell("echo n > n.txt")]));
    expect(await settledTask(service.url, other)).toMatchObject({ lifecycleStatus: "completed" });
    expect(processesOf(dataDir)).toEqual([]);
    // Nothing was made where the user took something away.
    if (name === "the project") expect(existsSync(directory)).toBe(false);
  });
});

describe("a start that cannot be says why in one line", () => {
  test("a second service on the data folder, and on the port", { timeout: 30_000 }, async () => {
    const dataDir = lab.folder("data");
    const first = serve(dataDir, "--port", "0");
    const url = await first.url;
    const second = serve(dataDir, "--port", "0");
    expect(await second.ended).toBe(75);
    oneLine(second.errors());
    const third = serve(lab.folder("data"), "--port", new URL(url).port);
    expect(await third.ended).toBe(69);
    oneLine(third.errors());
    expect((await send(url, "/health")).status).toBe(200);
    first.child.kill("SIGKILL");
    await first.ended;
    // The control: the folder is free again after a kill.
    const fourth = serve(dataDir, "--port", "0");
    await fourth.url;
    fourth.child.kill("SIGTERM");
    expect(await fourth.ended).toBe(0);
  });

  test.each(["the beginning", "the whole", "cut to half", "pages in the middle"])(
    "a database file broken: %s",
    { timeout: 30_000 },
    async (how) => {
      const dataDir = lab.folder("data");
      {
        await using service = await startService(dataDir, { SERVICE_CONFIG: lab.config });
        const directory = project();
        for (let count = 0; count < 6; count += 1)
          await settledTask(
            service.url,
            await createTask(service.url, directory, {
              request: `do nothing ${"q".repeat(40_000)}`,
              model: "mock/large",
            }),
          );
      }
      const file = join(dataDir, "sortie.db");
      const size = Number(execFileSync("stat", ["-c", "%s", file]).toString());
      const spoil = (from: number, count: number) =>
        execFileSync(
          "dd",
          [
            "if=/dev/urandom",
            `of=${file}`,
            "bs=512",
            `seek=${Math.floor(from / 512)}`,
            `count=${Math.ceil(count / 512)}`,
            "conv=notrunc",
          ],
          { stdio: "ignore" },
        );
      if (how === "the beginning") spoil(0, 4096);
      else if (how === "the whole")
        writeFileSync(file, "not a database at all, but long enough to look like one\n".repeat(200));
      else if (how === "cut to half") truncateSync(file, Math.floor(size / 8192) * 4096);
      else spoil(4096, size - 8192);
      const served = serve(dataDir, "--port", "0");
      const code = await Promise.race([served.ended, wait(15_000, "still there")]);
      expect(code, served.errors()).toBe(70);
      oneLine(served.errors());
      expect(served.errors()).toMatch(/^sortie: .*sortie\.db/);
    },
  );

  test("a data folder that cannot be written", { timeout: 30_000 }, async ({ skip }) => {
    const file = lab.folder("file");
    writeFileSync(file, "");
    const onFile = serve(join(file, "data"), "--port", "0");
    expect([78]).toContain(await onFile.ended);
    oneLine(onFile.errors());
    const folder = mountSmall("4m");
    if (folder === undefined) return skip();
    asRoot(`mount -o remount,ro ${folder}`);
    const readOnly = serve(folder, "--port", "0");
    expect([75, 78], readOnly.errors()).toContain(await readOnly.ended);
    oneLine(readOnly.errors());
  });
});

describe("SIGTERM while everything goes on", () => {
  const busy = async (url: string) => {
    const directory = project();
    for (const turns of [
      [shell("trap '' TERM; sleep 300")],
      [{ text: "x", latencyMs: 30_000 }],
      [shell("(setsid sleep 300 &); sleep 300")],
    ])
      await createTask(url, directory, lab.request(turns));
    await createTask(url, directory, { ...lab.request([]), checks: ["sleep 300"] });
    const reader = await fetch(`${url}/events?after=0&directory=${encodeURIComponent(directory)}`);
    void reader.text().catch(() => undefined);
    await wait(700);
    return directory;
  };

  test("it ends with 0 within ten seconds, nothing is left over, and the next start goes on", {
    timeout: 60_000,
  }, async () => {
    const dataDir = lab.folder("data");
    const served = serve(dataDir, "--port", "0");
    const url = await served.url;
    const directory = await busy(url);
    const load = Array.from({ length: 20 }, () =>
      post(url, "/task", directory, lab.request([])).catch(() => undefined),
    );
    const begun = performance.now();
    served.child.kill("SIGTERM");
    expect(await served.ended, served.errors()).toBe(0);
    expect(performance.now() - begun).toBeLessThan(10_000);
    await Promise.all(load);
    expect(processesOf(dataDir)).toEqual([]);
    const again = serve(dataDir, "--port", "0");
    const { body } = await send(await again.url, `/tasks?limit=200&directory=${encodeURIComponent(directory)}`);
    expect(
      (body as unknown as { status: string }[]).filter(({ status }) => status === "running").length,
    ).toBeGreaterThanOrEqual(4);
    again.child.kill("SIGTERM");
    expect(await again.ended).toBe(0);
    git(directory, "fsck", "--strict");
    expect(readdirSync(dataDir)).toContain("sortie.db");
  });

  test("a second signal ends it at once", { timeout: 60_000 }, async () => {
    const dataDir = lab.folder("data");
    const served = serve(dataDir, "--port", "0");
    await busy(await served.url);
    served.child.kill("SIGTERM");
    served.child.kill("SIGINT");
    await wait(30);
    const begun = performance.now();
    served.child.kill("SIGTERM");
    expect([0, 1]).toContain(await served.ended);
    expect(performance.now() - begun).toBeLessThan(1500);
    // What it could not end any more, the next start does.
    const again = serve(dataDir, "--port", "0");
    await again.url;
    again.child.kill("SIGTERM");
    expect(await again.ended).toBe(0);
    expect(processesOf(dataDir)).toEqual([]);
  });
});
