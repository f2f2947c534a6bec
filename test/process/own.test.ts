import { spawn } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import type { OwnProgram, Tracker } from "../../src/process/process.ts";
import { createProcesses } from "../../src/process/service.ts";
import { temporary, until } from "../harness/project.ts";

/** Programs of the service's own: alike whether the service starts them or its runner does. */

type End = { code: number | null; signal: string | null; killed: string | undefined; out: string; err: string };

const ran = (
  tracker: Tracker,
  program: Partial<OwnProgram> & { file: string },
  more: { idleMs?: number; begun?: (kill: () => void) => void } = {},
): Promise<End | { failed: string }> =>
  new Promise((resolve) => {
    const text = { stdout: "", stderr: "" };
    const begun = tracker.start(
      { args: [], cwd: "/", env: { PATH: process.env.PATH ?? "" }, ...program },
      { idleMs: more.idleMs ?? 30_000, undisturbed: false },
      {
        output: (from, chunk) => void (text[from] += chunk.toString("latin1")),
        failed: (failed) => resolve({ failed }),
        ended: (code, signal, killed) => resolve({ code, signal, killed, out: text.stdout, err: text.stderr }),
      },
    );
    more.begun?.(() => begun.kill());
  });

/** `through`: the runner is there before the programs are started. */
const scene = async (through: "service" | "runner") => {
  const folder = temporary();
  const processes = createProcesses({ folder: join(folder.path, "data/processes"), keepEnv: process.env, log: silent });
  if (through === "runner")
    await processes.run("task_1", {
      run: "true",
      cwd: folder.path,
      timeoutMs: 20_000,
      keepBytes: 100,
      signal: new AbortController().signal,
    });
  return {
    folder: folder.path,
    processes,
    tracker: processes.track("task_1"),
    async [Symbol.asyncDispose]() {
      await processes.stop();
      folder[Symbol.dispose]();
    },
  };
};

const sh = (script: string): { file: string; args: string[] } => ({ file: "sh", args: ["-c", script] });
const parentOf = (end: Awaited<ReturnType<typeof ran>>): number => ("out" in end ? Number(end.out) : Number.NaN);

describe.each(["service", "runner"] as const)("started by the %s", (through) => {
  test("by that one, in a group of its own, with the mark of its Task and nothing else of the environment", async () => {
    await using at = await scene(through);
    const parent = parentOf(await ran(at.tracker, sh("echo $PPID")));
    expect(parent === process.pid).toBe(through === "service");
    expect(await ran(at.tracker, sh('test "$(ps -o pgid= $$)" -eq $$ && echo alone'))).toMatchObject({
      out: "alone\n",
    });
    const { out } = (await ran(at.tracker, { file: "env", env: { A: "1" } })) as End;
    expect(out.split("\n").toSorted()).toEqual(["", "A=1", expect.stringMatching(/^SERVICE_RUN_ID=.*\/task_1\/own$/)]);
  });

  test("outputs apart, exit code, signal by name, and that there is no such program", async () => {
    await using at = await scene(through);
    expect(await ran(at.tracker, sh("echo out; echo err >&2; exit 3"))).toEqual({
      code: 3,
      signal: null,
      killed: undefined,
      out: "out\n",
      err: "err\n",
    });
    expect(await ran(at.tracker, sh("kill -TERM $$"))).toMatchObject({ code: null, signal: "SIGTERM" });
    expect(await ran(at.tracker, { file: "there-is-no-such-program" })).toEqual({
      failed: expect.stringContaining("ENOENT"),
    });
  });

  test("its input, whole and in order, also where it does not read it", async () => {
    await using at = await scene(through);
    const input = Buffer.from(Array.from({ length: 300_000 }, (_, at) => at % 251));
    const read = (await ran(at.tracker, { file: "cat", input })) as End;
    expect(Buffer.from(read.out, "latin1").equals(input)).toBe(true);
    expect(await ran(at.tracker, { file: "cat", input: "" })).toMatchObject({ code: 0, out: "" });
    expect(await ran(at.tracker, { file: "true", input })).toMatchObject({ code: 0 });
    const large = Buffer.alloc(3 * 1024 * 1024, "large ");
    expect(await ran(at.tracker, { ...sh("wc -c"), input: large })).toMatchObject({ out: `${large.length}\n` });
  });

  test("ended at once, later with its group, for want of progress, and with its Task", async () => {
    await using at = await scene(through);
    const long = sh("sleep 60 & echo $!; wait");
    expect(await ran(at.tracker, long, { begun: (kill) => kill() })).toMatchObject({ code: null, signal: "SIGKILL" });
    const later = await ran(at.tracker, long, { begun: (kill) => setTimeout(kill, 500) });
    const pid = parentOf(later);
    expect(pid).toBeGreaterThan(1);
    await until(
      () => Promise.resolve(existsSync(`/proc/${pid}`)),
      (is) => !is,
    );
    expect(await ran(at.tracker, sh("sleep 60"), { idleMs: 300 })).toMatchObject({ killed: "idle" });
    const cut = ran(at.tracker, sh("sleep 60"));
    at.processes.interrupt("task_1");
    expect(await cut).toMatchObject({ killed: "interrupted", signal: "SIGKILL" });
    const other = ran(at.processes.track("task_2"), sh("sleep 0.3; echo other"));
    at.processes.interrupt("task_1");
    expect(await other).toMatchObject({ out: "other\n", killed: undefined });
  });

  test("with the service's mask of permissions, whatever that of commands is", async () => {
    const before = process.umask(0o007);
    try {
      await using at = await scene(through);
      await ran(at.tracker, { ...sh("> own"), cwd: at.folder });
      expect(statSync(join(at.folder, "own")).mode & 0o777).toBe(0o660);
    } finally {
      process.umask(before);
    }
  });

  test("after the service has stopped its processes it starts them itself", async () => {
    const at = await scene(through);
    await at[Symbol.asyncDispose]();
    expect(await ran(at.tracker, sh("echo $PPID"))).toMatchObject({ out: `${process.pid}\n` });
  });
});

test("a runner that is killed tells an end without a reason, ends what it had started, and others start", async () => {
  await using at = await scene("runner");
  const running = ran(at.tracker, sh("echo $$; sleep 60"), {});
  const runner = parentOf(await ran(at.tracker, sh("echo $PPID")));
  await until(
    () => Promise.resolve(readFileSync(`/proc/${runner}/task/${runner}/children`, "latin1").trim()),
    (children) => children !== "",
  );
  process.kill(runner, "SIGKILL");
  const end = await running;
  expect(end).toMatchObject({ code: null, signal: null, killed: undefined });
  const pid = parentOf(end);
  await until(
    () => Promise.resolve(existsSync(`/proc/${pid}`)),
    (is) => !is,
  );
  expect(await ran(at.tracker, sh("echo next"))).toMatchObject({ code: 0, out: "next\n" });
});

test("a service that is killed takes its own programs along, but for one that writes what is the user's", async () => {
  // given: a service with a program of each kind, both in the middle of their work
  using folder = temporary();
  const from = (path: string) => JSON.stringify(fileURLToPath(new URL(`../../src/${path}`, import.meta.url)));
  const script = `
    import { createProcesses } from ${from("process/service.ts")};
    const folder = ${JSON.stringify(folder.path)};
    const silent = { debug() {}, info() {}, warn() {}, error() {} };
    const processes = createProcesses({ folder: folder + "/data/processes", keepEnv: process.env, log: silent });
    const signal = new AbortController().signal;
    await processes.run("task_1", { run: "true", cwd: folder, timeoutMs: 20000, keepBytes: 100, signal });
    const begin = (name, undisturbed) =>
      processes.track("task_1").start(
        { file: "sh", args: ["-c", "touch " + name + "-begun; sleep 1; touch " + name], cwd: folder, env: { PATH: process.env.PATH } },
        { idleMs: 30000, undisturbed },
        { output() {}, failed() {}, ended() {} },
      );
    begin("passing", false);
    begin("lasting", true);
    setInterval(() => {}, 1000);`;
  const service = spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: "inherit" });
  const there = (name: string) =>
    until(
      () => Promise.resolve(existsSync(join(folder.path, name))),
      (is) => is,
      15_000,
    );
  await Promise.all([there("passing-begun"), there("lasting-begun")]);
  // when
  service.kill("SIGKILL");
  // then
  await there("lasting");
  expect(existsSync(join(folder.path, "passing"))).toBe(false);
});
