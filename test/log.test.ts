import { spawn, spawnSync } from "node:child_process";
import fs, { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test, vi } from "vitest";
import { createLog } from "../src/log.ts";
import { freePort } from "./harness/port.ts";
import { temporary } from "./harness/project.ts";

const source = (path: string): string => JSON.stringify(fileURLToPath(new URL(`../src/${path}`, import.meta.url)));

/** Node's arguments for a program that imports the source. */
const program = (text: string): string[] => ["--no-warnings", "--input-type=module", "-e", text];

const full = (): Disposable & { fd: number } => {
  const fd = openSync("/dev/full", "w");
  return { fd, [Symbol.dispose]: () => closeSync(fd) };
};

afterEach(() => vi.restoreAllMocks());

test("a log on a full disk ends nobody's work; control: one that can be written has its lines", () => {
  using disk = full();
  const script = `
    import { createLog } from ${source("log.ts")};
    const log = createLog("info");
    for (let line = 0; line < 5; line += 1) log.error({ line }, "no space");
    setImmediate(() => {
      log.error({}, "no space");
      process.stdout.write("went on");
    });`;
  const onFull = spawnSync(process.execPath, program(script), { stdio: ["ignore", "pipe", disk.fd] });
  expect([onFull.status, onFull.stdout.toString()]).toEqual([0, "went on"]);
  const usual = spawnSync(process.execPath, program(script), { stdio: ["ignore", "pipe", "pipe"] });
  expect([usual.status, usual.stdout.toString()]).toEqual([0, "went on"]);
  expect(usual.stderr.toString().trim().split("\n")).toHaveLength(6);
});

test("lines wait for space within a bound, the others are counted", async () => {
  using root = temporary();
  const file = join(root.path, "log");
  const log = createLog("info", file);
  const write = vi.spyOn(fs, "writeSync").mockImplementation(() => {
    throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
  });
  const text = "x".repeat(1000);
  for (let line = 0; line < 1000; line += 1) log.info({ line, text }, "much");
  write.mockRestore();
  log.info({}, "there is space again");
  await vi.waitFor(() => expect(readFileSync(file, "utf8")).toContain("are lost"));
  const lines = readFileSync(file, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { line?: number; lines?: number; msg: string });
  const kept = lines.filter(({ msg }) => msg === "much").map(({ line }) => line);
  expect(kept).toEqual(kept.map((_, at) => at));
  expect(kept.length).toBeGreaterThan(100);
  expect(lines.find(({ msg }) => msg.endsWith("are lost"))?.lines).toBe(
    1000 + 1 - lines.filter(({ lines: lost }) => lost === undefined).length,
  );
});

test("a service whose output and log are on a full disk answers", async () => {
  using root = temporary();
  using disk = full();
  const port = await freePort();
  const script = `
    import { runMain } from ${source("cli/main.ts")};
    await runMain(["node", "sortie", "serve", "--port", "${port}", "--data-dir", ${JSON.stringify(join(root.path, "data"))}]);
    for (const output of [process.stdout, process.stderr]) output.write("more\\n");`;
  const child = spawn(process.execPath, program(script), {
    cwd: root.path,
    env: { PATH: process.env["PATH"], HOME: root.path, SERVICE_LOG_LEVEL: "debug" },
    stdio: ["ignore", disk.fd, disk.fd],
  });
  try {
    const answers = async () => (await fetch(`http://127.0.0.1:${port}/health`)).status;
    await vi.waitFor(async () => expect(await answers()).toBe(200), { timeout: 40_000, interval: 200 });
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect([child.exitCode, await answers()]).toEqual([null, 200]);
  } finally {
    child.kill("SIGKILL");
  }
}, 60_000);
