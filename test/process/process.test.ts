import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import type { SandboxPlace } from "../../src/process/sandbox/place.ts";
import { createProcesses, type ProcessOptions } from "../../src/process/service.ts";
import type { Command, Processes } from "../../src/process/process.ts";
import { processGroupSandbox } from "../../src/process/sandbox/sandbox.ts";
import { fairMs } from "../harness/pace.ts";
import { sandboxesHere } from "../harness/sandboxes.ts";
import { night } from "../harness/night.ts";

let folder: string;
let processes: Processes;

/** What the machine has; the weaker ones are there too, so that each is tried where it can be. */
// Tier 2 at night: what it adds to 3 is the namespace, which sandbox.test.ts and crash/processes.test.ts look at.
const tiers = (await sandboxesHere()).filter(({ tier }) => night || tier !== 2);
let sandbox = tiers[0] ?? processGroupSandbox;

const open = (more: Partial<ProcessOptions> = {}): Processes => {
  const made = createProcesses({
    folder: join(folder, "data/processes"),
    keepEnv: process.env,
    sandbox,
    log: silent,
    ...more,
  });
  return { ...made, run: (taskID, command) => made.run(taskID, command, place()) };
};

/** The folder of the test at its own path: what commands leave there is seen from here. */
const place = (): SandboxPlace => ({ tree: folder, at: folder, under: () => [], over: () => [] });

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sortie-process-"));
  processes = open();
});

afterEach(async () => {
  await processes.stop();
  rmSync(folder, { recursive: true, force: true });
});

const command = (run: string, more: Partial<Command> = {}): Command => ({
  run,
  cwd: folder,
  timeoutMs: 10_000,
  keepBytes: 64 * 1024,
  signal: new AbortController().signal,
  ...more,
});

/** The process of this machine that has this number inside. */
const hostPid = (inner: number): number | undefined => {
  if (sandbox.tier === 3) return inner;
  for (const name of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry)))
    try {
      const numbers = /^NSpid:\s+(.*)$/m.exec(readFileSync(`/proc/${name}/status`, "latin1"))?.[1]?.split("\t") ?? [];
      if (numbers.length < 2 || Number(numbers.at(-1)) !== inner) continue;
      if (readFileSync(`/proc/${name}/environ`, "latin1").includes(`SERVICE_RUN_ID=${folder}`)) return Number(name);
    } catch {}
  return undefined;
};

/** Living processes of this machine whose mark begins so. */
const marked = (mark: string): number =>
  readdirSync("/proc").filter((name) => {
    try {
      return /^\d+$/.test(name) && readFileSync(`/proc/${name}/environ`, "latin1").includes(`SERVICE_RUN_ID=${mark}`);
    } catch {
      return false;
    }
  }).length;

/** A process on its way out has no environment any more, and is a zombie a moment later. */
const lives = (inner: number): boolean => {
  const pid = hostPid(inner);
  if (pid === undefined) return false;
  try {
    readFileSync(`/proc/${pid}/environ`);
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
};

const pidsIn = (name: string): number[] => {
  try {
    return readFileSync(join(folder, name), "utf8").trim().split("\n").filter(Boolean).map(Number);
  } catch {
    return [];
  }
};

const until = async (condition: () => boolean, ms = 3000) => {
  const deadline = performance.now() + ms;
  while (!condition() && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 10));
  return condition();
};

/** Ways to leave a process behind; each writes the pid of what it leaves to `pids`. */
const leaving: Record<string, string> = {
  background: "sleep 300 & echo $! >> pids",
  "background, output elsewhere": "sleep 300 >/dev/null 2>&1 & echo $! >> pids",
  nohup: "nohup sleep 300 >/dev/null 2>&1 & echo $! >> pids",
  "double fork": "( ( sleep 300 & echo $! >> pids ) & ) ; sleep 0.1",
  setsid: "setsid bash -c 'echo $$ >> pids; exec sleep 300' & sleep 0.15",
  "setsid, output elsewhere":
    "setsid bash -c 'echo $$ >> pids; exec sleep 300' </dev/null >/dev/null 2>&1 & sleep 0.15",
  "setsid twice, ignoring signals":
    "setsid bash -c \"trap '' TERM INT HUP; setsid bash -c 'echo \\$\\$ >> pids; exec sleep 300' & sleep 0.1\" & sleep 0.25",
  disowned: "set -m; sleep 300 & echo $! >> pids; disown",
};

test("what a killed service left of programs that it talked to goes at the next start", async () => {
  const left = join(folder, "data/sandbox/talk/task_1-1");
  mkdirSync(left, { recursive: true });
  writeFileSync(join(left, "env"), "export TOKEN=secret");
  const next = open();
  await next.endLeftovers();
  expect(existsSync(left)).toBe(false);
  await next.stop();
});

test.each(["onStdout", "onStderr", "onOutput"] as const)("what %s throws ends the command alone", async (listener) => {
  const full = Object.assign(new Error("no space"), { code: "ENOSPC" });
  const throwing = () => {
    throw full;
  };
  const both = "echo out; echo err >&2; ";
  const beside = processes.run("task_2", command("sleep 1; echo went on"));
  await expect(processes.run("task_1", command(`${both}sleep 60`, { [listener]: throwing }))).rejects.toBe(full);
  expect((await beside).output).toBe("went on\n");
  expect((await processes.run("task_1", command(both, { [listener]: () => {} }))).exitCode).toBe(0);
});

describe.each(tiers)("tier $tier", (chosen) => {
  beforeEach(async () => {
    await processes.stop();
    sandbox = chosen;
    processes = open();
  });

  describe("a command", () => {
    test("answers exit code, both outputs as they came, and standard output alone", async () => {
      const ran = await processes.run("task_a", command("echo one; echo two >&2; sleep 0.02; echo three; exit 3"));
      expect({ ...ran, durationMs: 0 }).toEqual({
        exitCode: 3,
        output: "one\ntwo\nthree\n",
        stdout: "one\nthree\n",
        dropped: 0,
        ended: "exit",
        durationMs: 0,
      });
    });

    test("sees the allow-listed environment, its own additions, and nothing of the service's", async () => {
      const own = open({
        folder: join(folder, "data/other"),
        runID: "data-1",
        keepEnv: {
          PATH: process.env["PATH"],
          LANG: "C.UTF-8",
          OPENAI_API_KEY: "sk-1",
          SERVICE_SERVER_PASSWORD: "p",
          NODE_OPTIONS: "--x",
          HOME: "/root",
        },
      });
      const ran = await own.run(
        "task_a",
        command("env -0 | sort -z | tr '\\0' '\\n'", { env: { ADDED: "1", SERVICE_RUN_ID: "forged" } }),
      );
      const names = ran.stdout
        .trim()
        .split("\n")
        .filter((line) => !/^(_|SHLVL|PWD|OLDPWD)=/.test(line));
      expect(names.toSorted()).toEqual(
        [
          "ADDED=1",
          "CI=1",
          "HOME=/tmp",
          "HUSKY=0",
          "LANG=C.UTF-8",
          `PATH=${process.env["PATH"]}`,
          ...Object.entries(sandbox.env).map(([name, value]) => `${name}=${value}`),
          "SERVICE_RUN_ID=data-1/task_a/1",
          "TERM=dumb",
        ].toSorted(),
      );
      await own.stop();
    });

    test("has no standard input and its own group", async () => {
      const ran = await processes.run(
        "task_a",
        command("cat; readlink /proc/self/fd/0; ps -o pgid= -p $$ | tr -d ' '; echo $$"),
      );
      const [stdin, pgid, pid] = ran.stdout.trim().split("\n");
      expect(stdin).toBe("/dev/null");
      expect(pgid).toBe(pid);
    });

    test("streams its output live, characters whole", async () => {
      const parts: { text: string; at: number }[] = [];
      const begun = performance.now();
      const run = "printf 'a\\xc3'; sleep 0.2; printf '\\xa4b'";
      const ran = await processes.run(
        "task_a",
        command(run, { onOutput: (text) => parts.push({ text, at: performance.now() - begun }) }),
      );
      expect(parts.map((part) => part.text).join("")).toBe("aäb");
      expect(parts[0]?.at).toBeLessThan(ran.durationMs - 100);
    });

    test.each([0, 1, 7, 1000, 1001])("keeps head and tail within %i bytes and counts the rest", async (keepBytes) => {
      const ran = await processes.run("task_a", command("seq 1 20000", { keepBytes }));
      const whole = Array.from({ length: 20_000 }, (_, index) => `${index + 1}\n`).join("");
      expect(ran.dropped).toBe(whole.length - keepBytes);
      const [head = "", tail = ""] = ran.output.split(/\n\[… \d+ bytes not kept …\]\n/);
      expect(head).toBe(whole.slice(0, Math.ceil(keepBytes / 2)));
      expect(tail).toBe(whole.slice(whole.length - Math.floor(keepBytes / 2)));
    });

    test("a cut inside a character loses the character, not the text", async () => {
      const ran = await processes.run(
        "task_a",
        command("for i in $(seq 100); do printf '€€€€€€€€€€'; done", { keepBytes: 101 }),
      );
      expect(ran.output).toMatch(/^€{17}\n\[… 2899 bytes not kept …\]\n€{16}$/);
    });

    test("that cannot start says so", async () => {
      const ran = await processes.run("task_a", command("true", { cwd: join(folder, "missing") }));
      expect({ ended: ran.ended, exitCode: ran.exitCode }).toEqual({ ended: "not-started", exitCode: null });
      expect(ran.output).toMatch(/ENOENT/);
    });

    test("that a signal ended has no exit code", async () => {
      const ran = await processes.run("task_a", command("kill -9 $$"));
      // Process 1 of a sandbox is a shell, and says it as a shell does.
      const exitCode = sandbox.tier === 3 ? null : 137;
      expect({ ended: ran.ended, exitCode: ran.exitCode }).toEqual({ ended: "exit", exitCode });
    });

    test("is not begun when already aborted", async () => {
      const ran = await processes.run("task_a", command("touch began", { signal: AbortSignal.abort() }));
      expect(ran.ended).toBe("aborted");
      expect(() => readFileSync(join(folder, "began"))).toThrow(/ENOENT/);
    });
  });

  describe.runIf(process.platform === "linux")("leaves nothing behind", () => {
    test.runIf(chosen.tier === 3)("control: plain spawn leaves every one of them", async () => {
      for (const [name, run] of Object.entries(leaving)) {
        rmSync(join(folder, "pids"), { force: true });
        const child = spawn("bash", ["-c", run], { cwd: folder, stdio: "ignore" });
        await new Promise((resolve) => child.once("exit", resolve));
        await until(() => pidsIn("pids").length > 0);
        const [pid] = pidsIn("pids");
        expect(pid !== undefined && lives(pid), name).toBe(true);
        for (const left of pidsIn("pids")) process.kill(left, "SIGKILL");
      }
    });

    const inFile = (run: string, name: string) => run.replaceAll("pids", name);

    test("when the shell exits", async () => {
      await Promise.all(
        Object.entries(leaving).map(async ([name, run], at) => {
          const ran = await processes.run("task_a", command(inFile(run, `exit-${at}`)));
          expect(ran.ended, name).toBe("exit");
          expect(ran.durationMs, name).toBeLessThan(fairMs(3000));
          expect(pidsIn(`exit-${at}`), name).toHaveLength(1);
          expect(pidsIn(`exit-${at}`).filter(lives), name).toEqual([]);
        }),
      );
    });

    test("at its timeout", async () => {
      await Promise.all(
        Object.entries(leaving).map(async ([name, run], at) => {
          const ran = await processes.run(
            "task_a",
            command(`${inFile(run, `out-${at}`)}; sleep 300`, { timeoutMs: 4000 }),
          );
          expect({ ended: ran.ended, exitCode: ran.exitCode }, name).toEqual({ ended: "timeout", exitCode: null });
          expect(pidsIn(`out-${at}`), name).toHaveLength(1);
          expect(pidsIn(`out-${at}`).filter(lives), name).toEqual([]);
        }),
      );
    });

    test("when aborted, within a moment", async () => {
      const abort = new AbortController();
      const all = Object.values(leaving).join("\n");
      const running = processes.run("task_a", command(`${all}\nsleep 300`, { signal: abort.signal }));
      await until(() => pidsIn("pids").length >= Object.keys(leaving).length);
      const begun = performance.now();
      abort.abort();
      expect((await running).ended).toBe("aborted");
      expect(performance.now() - begun).toBeLessThan(1000);
      expect(pidsIn("pids").length).toBeGreaterThanOrEqual(Object.keys(leaving).length);
      expect(pidsIn("pids").filter(lives)).toEqual([]);
    });

    test("a process that closed everything it inherited goes at the end of the Task", async () => {
      const daemon = `${process.execPath} -e "
      const { spawn } = require('node:child_process');
      const child = spawn('sleep', ['300'], { detached: true, stdio: 'ignore' });
      require('node:fs').writeFileSync('pids', String(child.pid));
      child.unref()"`;
      // exec 3>&-: what a daemon does with descriptors it does not know.
      await processes.run("task_a", command(`exec 3>&-; ${daemon}`));
      const [pid = 0] = pidsIn("pids");
      expect(pid).toBeGreaterThan(0);
      // Nothing of it is to be seen in tier 3; in the others, it is all that there is.
      if (sandbox.tier !== 3) await until(() => !lives(pid), 200);
      expect(lives(pid)).toBe(sandbox.tier === 3);
      expect(await processes.killAll("task_a")).toEqual(sandbox.tier === 3 ? [pid] : []);
      expect(lives(pid)).toBe(false);
    });

    test("ending one Task or command spares the others", async () => {
      const running = (task: string) => marked(`${folder}/data/processes/${task}/`);
      const other = processes.run("task_b", command("echo $$ >> other; sleep 300; true"));
      const same = processes.run("task_a", command("echo $$ >> other; setsid sleep 0.4 & sleep 0.5; echo done"));
      await until(() => pidsIn("other").length === 2);
      await processes.run("task_a", command("setsid sleep 300 & sleep 0.05"));
      expect(running("task_b")).toBeGreaterThan(0);
      expect((await same).stdout).toBe("done\n");
      await processes.killAll("task_a");
      expect({ a: running("task_a"), b: running("task_b") > 0 }).toEqual({ a: 0, b: true });
      expect(await processes.killAll("task_b")).toHaveLength(1);
      expect(running("task_b")).toBe(0);
      expect((await other).ended).toBe("aborted");
    });
  });
});

describe.runIf(process.platform === "linux")("leaves nothing behind: tier 3", () => {
  beforeEach(() => {
    sandbox = processGroupSandbox;
  });

  /** Ids of the processes that a process started itself. */
  const childrenOf = (pid: number): number[] =>
    readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1").split(" ").filter(Boolean).map(Number);

  test("after a kill -9 of the service its runner ends every group at once", async () => {
    const script = join(folder, "lone.ts");
    const source = fileURLToPath(new URL("../../src", import.meta.url));
    writeFileSync(
      script,
      `import { createProcesses } from ${JSON.stringify(`${source}/process/service.ts`)};
       import { silent } from ${JSON.stringify(`${source}/log.ts`)};
       const processes = createProcesses({ folder: ${JSON.stringify(join(folder, "processes"))}, runID: "lone", keepEnv: process.env, log: silent });
       const base = { cwd: ${JSON.stringify(folder)}, timeoutMs: 60000, keepBytes: 1000, signal: new AbortController().signal };
       void processes.run("task_a", { ...base, run: "echo $$ >> pids; sleep 300 & echo $! >> pids; trap '' TERM; sleep 300" });
      `,
    );
    const service = spawn(process.execPath, [script], { stdio: "inherit" });
    await until(() => pidsIn("pids").length >= 2, 8000);
    const runners = childrenOf(service.pid ?? 0);
    expect(runners).toHaveLength(1);
    expect(pidsIn("pids").filter(lives)).toHaveLength(2);
    service.kill("SIGKILL");
    expect(await until(() => [...runners, ...pidsIn("pids")].every((pid) => !lives(pid)), 2000)).toBe(true);
  });

  test("with its runner ended too, the next service ends what is left, by Task, and nothing of others", async () => {
    const owner = join(folder, "owner.ts");
    const source = fileURLToPath(new URL("../../src", import.meta.url));
    writeFileSync(
      owner,
      `import { createProcesses } from ${JSON.stringify(`${source}/process/service.ts`)};
       import { silent } from ${JSON.stringify(`${source}/log.ts`)};
       const processes = createProcesses({ folder: ${JSON.stringify(join(folder, "processes"))}, runID: "data-1", keepEnv: process.env, log: silent });
       const signal = new AbortController().signal;
       const base = { cwd: ${JSON.stringify(folder)}, timeoutMs: 60000, keepBytes: 1000, signal };
       void processes.run("task_a", { ...base, run: "echo $$ >> pids; sleep 300 & echo $! >> pids; setsid bash -c 'echo $$ >> pids; exec sleep 300' & sleep 300" });
       void processes.run("task_b", { ...base, run: "echo $$ >> pids; env -u SERVICE_RUN_ID bash -c 'echo $$ >> pids; exec sleep 300' & sleep 0.2; kill -9 $$" });
       void processes.run("task_c", { ...base, run: "env -u SERVICE_RUN_ID bash -c 'echo $$ >> pids; exec sleep 300' & sleep 300" });
      `,
    );
    const bystander = spawn("sleep", ["300"], {
      detached: true,
      stdio: "ignore",
      env: { SERVICE_RUN_ID: "data-10/task_a/1" },
    });
    const service = spawn(process.execPath, [owner], { stdio: "inherit" });
    await until(() => pidsIn("pids").length >= 6, 8000);
    // A command that begins in the very moment in which both die is on nobody's record yet.
    const onRecord = () =>
      (existsSync(join(folder, "processes")) ? readdirSync(join(folder, "processes")) : [])
        .map((file) => readFileSync(join(folder, "processes", file), "utf8"))
        .join();
    await until(() => ["task_a", "task_b", "task_c"].every((taskID) => onRecord().includes(taskID)), 8000);
    // Stopped first, so that it does not see its runner go.
    service.kill("SIGSTOP");
    for (const runner of childrenOf(service.pid ?? 0)) process.kill(runner, "SIGKILL");
    service.kill("SIGKILL");
    await new Promise((resolve) => service.once("exit", resolve));
    // Control: they are alive without their service.
    expect(pidsIn("pids").filter(lives).length).toBeGreaterThanOrEqual(4);

    const next = createProcesses({
      folder: join(folder, "processes"),
      runID: "data-1",
      keepEnv: process.env,
      log: silent,
    });
    const begun = performance.now();
    const killed = await next.endLeftovers();
    expect(performance.now() - begun).toBeLessThan(2000);
    // Killed is not yet gone: the kernel takes a moment on a busy machine.
    await until(() => pidsIn("pids").filter(lives).length === 0, 2000);
    expect(pidsIn("pids").filter(lives)).toEqual([]);
    expect([...killed.keys()].sort()).toEqual(expect.arrayContaining(["task_a", "task_c"]));
    expect(lives(bystander.pid ?? 0)).toBe(true);
    bystander.kill("SIGKILL");
    expect(await next.endLeftovers()).toEqual(new Map());
    await next.stop();
  });

  test("a record of another life of the machine, or with a number used anew, kills nobody", async () => {
    const bystander = spawn("sleep", ["300"], { detached: true, stdio: "ignore" });
    const pid = bystander.pid ?? 0;
    const started = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ")[1]?.split(" ")[19];
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    const records = join(folder, "records");
    const fresh = () => createProcesses({ folder: records, runID: "data-1", keepEnv: process.env, log: silent });
    const reapOf = async (text: string) => {
      const { mkdirSync } = await import("node:fs");
      mkdirSync(records, { recursive: true });
      writeFileSync(join(records, "999999999-1-1"), text);
      return fresh().endLeftovers();
    };
    expect(await reapOf(`boot other\n+ ${pid} ${started} task_a\n`)).toEqual(new Map());
    expect(await reapOf(`boot ${boot}\n+ ${pid} 17 task_a\n`)).toEqual(new Map());
    expect(await reapOf(`boot ${boot}\n+ ${pid} ${started} task_a\n- ${pid}\n`)).toEqual(new Map());
    expect(await reapOf(`boot ${boot}\n+ ${pid} ${started} task_a`)).toEqual(new Map());
    expect(lives(pid)).toBe(true);
    expect(await reapOf(`boot ${boot}\n+ ${pid} ${started} task_a\n`)).toEqual(new Map([["task_a", [pid]]]));
    expect(lives(pid)).toBe(false);
  });
});
