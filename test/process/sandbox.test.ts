import { execFileSync } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { silent } from "../../src/log.ts";
import { defaultLimits } from "../../src/protocol/limit.ts";
import { createSandboxPool } from "../../src/process/runner/pool.ts";
import { createProcesses, type ProcessOptions } from "../../src/process/service.ts";
import type { Command, CommandResult } from "../../src/process/process.ts";
import { selfTest } from "../../src/process/sandbox/self-test.ts";
import { bubblewrapSandbox, findProgram, type Sandbox } from "../../src/process/sandbox/sandbox.ts";
import { createRunnerClient } from "../../src/process/runner/client.ts";
import { toolEnv } from "../../src/process/sandbox/toolchain.ts";
import { createWorkspaces } from "../../src/workspace/service.ts";
import { git, makeProject, temporary, writeFiles } from "../harness/project.ts";
import { sandboxesHere } from "../harness/sandboxes.ts";

/** Commands in their sandbox as a Task has them: which files, how long one is kept, and what breaks and mends it. */

const path = process.env["PATH"] ?? "";
const here = await sandboxesHere();
const [first] = here;
const signal = new AbortController().signal;
const more = { timeoutMs: 30_000, keepBytes: 1_000_000, signal };

type Scene = { folder: string; processes: ReturnType<typeof createProcesses> };

const scene = (sandbox: Sandbox, options: Partial<ProcessOptions> = {}): Scene => {
  const folder = temporary("sortie-sandbox-");
  const processes = createProcesses({
    folder: join(folder.path, "data/processes"),
    runID: join(folder.path, "data"),
    keepEnv: process.env,
    sandbox,
    log: silent,
    ...options,
  });
  onTestFinished(async () => {
    await processes.stop();
    folder[Symbol.dispose]();
  });
  return { folder: folder.path, processes };
};

/** A folder of its own for each Task. */
const runner =
  ({ folder, processes }: Scene) =>
  (taskID: string, run: string, command: Partial<Command> = {}): Promise<CommandResult> => {
    const tree = join(folder, taskID);
    mkdirSync(tree, { recursive: true });
    return processes.run(
      taskID,
      { run, cwd: tree, ...more, ...command },
      { tree, at: tree, under: () => [], over: () => [] },
    );
  };

const workspacesOf = ({ folder, processes }: Scene) =>
  createWorkspaces({ dataDir: join(folder, "data"), projectRoots: [], processes, limits: defaultLimits, log: silent });

const writable = (...names: string[]) =>
  names.map((name) => `( : >> ${name} ) 2>/dev/null && echo '${name} rw' || echo '${name} ro'`).join("\n");

describe.runIf(first?.tier === 1)("the files of a Task, in tier 1", () => {
  const tier1 = first as Sandbox;
  const open = async (at: Scene, directory: string, isolation: "worktree" | "directory") => {
    const workspaces = workspacesOf(at);
    const workspace = await workspaces.prepare({ taskID: "task_1", directory, isolation, landing: "commit" });
    return async (run: string) => (await workspace.run({ run, cwd: workspace.root, ...more })).output.trimEnd();
  };

  test("in place: the project can be written, its repository and those in it cannot", async () => {
    const at = scene(tier1);
    const project = makeProject(join(at.folder, "p"), { "a.txt": "a\n", "lib/b.txt": "b\n" });
    execFileSync("git", ["init", "-q", join(project, "lib/nested")]);
    const run = await open(at, project, "directory");
    expect(
      await run(writable("a.txt", "new", ".git/config", ".git/hooks/x", "lib/nested/c", "lib/nested/.git/config")),
    ).toBe("a.txt rw\nnew rw\n.git/config ro\n.git/hooks/x ro\nlib/nested/c rw\nlib/nested/.git/config ro");
    expect(await run("git status --porcelain a.txt; git log --format=%s; mv .git x; rm -rf .git; ls -d .git")).toMatch(
      /first[^]*\.git$/,
    );
    git(project, "fsck", "--strict");
    expect(existsSync(join(project, "new"))).toBe(true);
  });

  test.each(["worktree", "directory"] as const)("a subfolder as the project, %s", async (isolation) => {
    const at = scene(tier1);
    const top = makeProject(join(at.folder, "p"), { "a.txt": "a\n", "sub/b.txt": "b\n" });
    const run = await open(at, join(top, "sub"), isolation);
    expect(
      await run(`pwd; cat b.txt ../a.txt; echo c > c.txt; git rev-parse --show-prefix; ${writable("../.git/config")}`),
    ).toBe(`${top}/sub\nb\na\nsub/\n../.git/config ro`);
    expect(existsSync(join(top, "sub/c.txt"))).toBe(isolation === "directory");
    // In place the rest of the repository is there to be read.
    expect(await run(writable("../a.txt"))).toBe(isolation === "directory" ? "../a.txt ro" : "../a.txt rw");
    expect(git(top, "status", "--porcelain", "a.txt")).toBe("");
  });

  test.each(["worktree", "directory"] as const)(
    "a linked worktree of the user's as the project, %s",
    async (isolation) => {
      const at = scene(tier1);
      const main = makeProject(join(at.folder, "main"), { "a.txt": "a\n" });
      const linked = join(at.folder, "linked");
      git(main, "worktree", "add", "-q", "-b", "other", linked);
      const run = await open(at, linked, isolation);
      expect(await run("git log --format=%s; git status --porcelain; echo x >> a.txt; git diff --stat | tail -1")).toBe(
        "first\n 1 file changed, 1 insertion(+)",
      );
      expect(await run(`${writable(".git")}; git config core.fsmonitor x; git branch evil; :`)).toMatch(/^\.git ro/);
      expect(
        git(main, "for-each-ref", "--format=%(refname)", "refs/heads/main", "refs/heads/other", "refs/heads/evil"),
      ).toBe("refs/heads/main\nrefs/heads/other");
      expect(readFileSync(join(main, ".git/config"), "utf8")).not.toContain("fsmonitor");
    },
  );

  test.each(["worktree", "directory"] as const)("a repository that borrows objects, %s", async (isolation) => {
    const at = scene(tier1);
    const lender = makeProject(join(at.folder, "lender"), { "a.txt": "a\n" });
    git(lender, "gc", "-q");
    const borrower = join(at.folder, "borrower");
    execFileSync("git", ["clone", "-q", "--shared", lender, borrower]);
    const run = await open(at, borrower, isolation);
    expect(
      await run(
        `git log --format=%s; git cat-file -p HEAD:a.txt; ls ${lender}; ${writable(`${lender}/.git/objects/x`)}`,
      ),
    ).toMatch(/^first\na\n[^]*objects\/x ro$/);
  });

  test.each(["worktree", "directory"] as const)("tokens in the repository are not shown, %s", async (isolation) => {
    const at = scene(tier1);
    const project = makeProject(join(at.folder, "p"), { "a.txt": "a\n" });
    const inner = makeProject(join(at.folder, "inner"), { "i.txt": "i\n" });
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", "--name", "lib/inner", inner, "inner");
    git(project, "commit", "-q", "-m", "with a submodule");
    git(project, "worktree", "add", "-q", "-b", "other", join(at.folder, "other"));
    git(project, "config", "extensions.worktreeConfig", "true");
    const names = [
      "config",
      "config.worktree",
      "credentials",
      "modules/lib/inner/config",
      "worktrees/other/config.worktree",
      // What others keep there: hooks, helpers, what was typed.
      "hooks/pre-push",
      "modules/lib/inner/hooks/pre-push",
      "logs/HEAD",
      ".netrc",
      "some-tool/settings",
      "annex/creds/key",
      // A repository inside, of the user's own.
      "../nested/.git/config",
      "../nested/.git/hooks/pre-push",
      "../nested/.git/credentials",
    ];
    makeProject(join(project, "nested"), { "n.txt": "n\n" });
    for (const name of names) {
      mkdirSync(dirname(join(project, ".git", name)), { recursive: true });
      appendFileSync(join(project, ".git", name), "[http]\n\textraheader = AUTHORIZATION: Secret-9\n");
    }
    // Control: they are there.
    expect(
      execFileSync("grep", ["-rl", "Secret-9", "."], { cwd: project, encoding: "utf8" }).trim().split("\n"),
    ).toHaveLength(names.length);
    const run = await open(at, project, isolation);
    const common = "$(git rev-parse --path-format=absolute --git-common-dir)";
    expect(
      await run(`ls ${common}/config; grep -rl Secret-9 ${common} .; git log -1 --format=%s; git status --porcelain`),
    ).toMatch(/^[^\n]*\/config\nwith a submodule(?:\n\?\? nested\/)?$/);
    if (isolation === "directory")
      for (const inside of ["inner", "nested"])
        expect(await run(`cd ${inside}; git log --format=%s; git status --porcelain`)).toBe("first");
  });

  test("in place: the repository of a submodule, and one whose config only reads like a work tree, are read-only", async () => {
    const at = scene(tier1);
    const top = makeProject(join(at.folder, "p"), { "a.txt": "a\n" });
    const inner = makeProject(join(at.folder, "inner"), { "i.txt": "i\n" });
    git(top, "-c", "protocol.file.allow=always", "submodule", "add", "-q", inner, "sub");
    const run = await open(at, join(top, "sub"), "directory");
    const gitDir = join(top, ".git/modules/sub");
    expect(
      await run(`git log --format=%s; ${writable("i.txt", ".git", `${gitDir}/config`, `${gitDir}/hooks/x`)}`),
    ).toBe(`first\ni.txt rw\n.git ro\n${gitDir}/config ro\n${gitDir}/hooks/x ro`);
    const named = scene(tier1);
    const like = makeProject(join(named.folder, "p"), { "a.txt": "a\n" });
    git(like, "config", "branch.worktree", "1");
    git(like, "config", "core.worktree", like);
    const runThere = await open(named, like, "directory");
    expect(await runThere(`git log --format=%s; ${writable("a.txt", ".git/config", ".git/hooks/x")}`)).toBe(
      "first\na.txt rw\n.git/config ro\n.git/hooks/x ro",
    );
  });

  test.each([
    ["a work tree that the configuration of a worktree names", "config.worktree"],
    ["a linked worktree", "worktrees/other/config.worktree"],
    ["a submodule inside a submodule", "modules/sub/modules/deep/config"],
    ["refs in another format", "reftable/x"],
  ])(
    "in place, %s: its Git directory is read-only, control: without a sandbox it can be written",
    async (name, path) => {
      const at = scene(tier1);
      const top = makeProject(join(at.folder, "p"), { "a.txt": "a\n" });
      const inner = (folder: string) => makeProject(join(at.folder, folder), { "i.txt": "i\n" });
      const add = (folder: string, ...from: string[]) =>
        git(folder, "-c", "protocol.file.allow=always", "submodule", "add", "-q", ...from);
      let directory = top;
      if (name.startsWith("a work tree")) {
        git(top, "config", "extensions.worktreeConfig", "true");
        git(top, "config", "--worktree", "core.worktree", top);
      } else if (name === "a linked worktree") {
        directory = join(at.folder, "other");
        git(top, "worktree", "add", "-q", "-b", "other", directory);
      } else if (name.startsWith("a submodule")) {
        add(top, inner("sub"), "sub");
        add(join(top, "sub"), inner("deep"), "deep");
        directory = join(top, "sub/deep");
      } else mkdirSync(join(top, ".git/reftable"));
      const file = join(top, ".git", path);
      const check = writable(join(directory, "new"), file, `${file}-new`, join(top, ".git/hooks/post-commit"));
      const run = await open(at, directory, "directory");
      expect((await run(check)).split("\n").map((line) => line.slice(-2))).toEqual(["rw", "ro", "ro", "ro"]);
      const bare = execFileSync("bash", ["-c", check], { encoding: "utf8" });
      expect(
        bare
          .trim()
          .split("\n")
          .filter((line) => line.endsWith(" ro")),
      ).toEqual([]);
    },
  );

  test("folders of the operator's, read-only; without them they are not there", async () => {
    const folder = temporary();
    onTestFinished(() => folder[Symbol.dispose]());
    writeFiles(folder.path, { "sets/one.csv": "1\n" });
    const sets = join(folder.path, "sets");
    const machine = { path, home: "/root", dataDir: join(folder.path, "data") };
    const bwrap = findProgram("bwrap", path) ?? "";
    const script = `cat ${sets}/one.csv; ${writable(`${sets}/x`)}`;
    const given = runner(scene(bubblewrapSandbox({ ...machine, paths: [sets] }, false, bwrap)));
    expect((await given("task_a", script)).output).toBe(`1\n${sets}/x ro\n`);
    const without = runner(scene(bubblewrapSandbox({ ...machine, paths: [] }, false, bwrap)));
    expect((await without("task_a", script)).stdout).toBe(`${sets}/x ro\n`);
  });

  test("/tmp is each Task's own, and stays from command to command", async () => {
    const run = runner(scene(tier1));
    expect((await run("task_a", "echo a > /tmp/mine; ls /tmp | grep mine")).output).toBe("mine\n");
    expect((await run("task_a", "cat /tmp/mine /var/tmp/mine")).output).toBe("a\na\n");
    expect((await run("task_b", "ls /tmp | grep mine; echo b > /tmp/mine")).output).toBe("");
    expect((await run("task_a", "cat /tmp/mine")).output).toBe("a\n");
  });

  test("/tmp and /dev/shm are bounded, the rest of /dev takes no files; without a bound they hold more", async () => {
    const folder = temporary();
    onTestFinished(() => folder[Symbol.dispose]());
    const machine = { path, home: "/root", paths: [], dataDir: join(folder.path, "data") };
    const script = [
      ...["/tmp", "/dev/shm"].map((at) => `head -c 3000000 /dev/zero 2>/dev/null > ${at}/big; wc -c < ${at}/big`),
      "(: > /dev/x) 2>/dev/null && echo more",
      `echo x > /dev/null && head -c 1 /dev/urandom | wc -c && python3 -c 'import os; os.openpty(); print("terminal")'`,
    ].join("\n");
    const bwrap = findProgram("bwrap", path) ?? "";
    const bounded = runner(scene(bubblewrapSandbox({ ...machine, tmpBytes: 1024 ** 2 }, false, bwrap)));
    expect((await bounded("task_a", script)).stdout).toBe("1048576\n1048576\n1\nterminal\n");
    const free = runner(scene(bubblewrapSandbox({ ...machine, tmpBytes: 1024 ** 5 }, false, bwrap, ["devices"])));
    expect((await free("task_a", script)).stdout).toBe("3000000\n3000000\nmore\n1\nterminal\n");
  });

  test("an external agent has the network when it may, where commands have none", async () => {
    const at = scene(tier1);
    const tree = join(at.folder, "tree");
    mkdirSync(tree);
    const place = { tree, at: tree, under: () => [], over: () => [] };
    const interfaces = async (network: boolean) => {
      const run = "grep -c : /proc/net/dev; wc -c </etc/resolv.conf";
      const talking = await at.processes.startInteractive(
        "task_a",
        tree,
        { run, env: {}, home: undefined, network, signal },
        place,
      );
      let text = "";
      talking.stdout.on("data", (chunk: Buffer) => (text += chunk.toString()));
      await talking.gone;
      const [count = 0, names = 0] = text.trim().split("\n").map(Number);
      return { count, named: names > 0 };
    };
    const outside = readFileSync("/proc/net/dev", "utf8")
      .split("\n")
      .filter((line) => line.includes(":")).length;
    expect((await interfaces(false)).count).toBe(1);
    expect(await interfaces(true)).toEqual({ count: outside, named: readFileSync("/etc/resolv.conf").length > 0 });
  });
});

/** The processes of the kept sandbox of task_a, the oldest first. */
const markedOf = (folder: string): number[] =>
  execFileSync(
    "bash",
    ["-c", `grep -lzs '^SERVICE_RUN_ID=${join(folder, "data")}/task_a/box' /proc/[0-9]*/environ | cut -d/ -f3; :`],
    { encoding: "utf8" },
  )
    .split("\n")
    .filter(Boolean)
    .map(Number)
    .toSorted((a, b) => a - b);

describe.each(here.filter(({ tier }) => tier < 3))("a sandbox that is kept, in tier $tier", (sandbox) => {
  /** Process ids of what holds the sandboxes. */
  const open = (options: { kept?: number; idleMs?: number }) => {
    const folder = temporary("sortie-boxes-");
    const spawner = createRunnerClient(silent);
    const busy = new Set<string>();
    const pids = new Map<string, number[]>();
    const boxes = createSandboxPool({
      proxy: () => "",
      sandbox,
      spawner,
      folder: join(folder.path, "sandbox"),
      env: () => ({ PATH: path, LC_ALL: "C" }),
      prelude: "",
      paths: () => [],
      isBusy: (taskID) => busy.has(taskID),
      opened: (pid, taskID) => pids.set(taskID, [...(pids.get(taskID) ?? []), pid]),
      closed: () => {},
      log: silent,
      ...options,
    });
    onTestFinished(async () => {
      await boxes.shutAll();
      spawner.close();
      folder[Symbol.dispose]();
    });
    const use = (taskID: string) =>
      boxes.use(taskID, { tree: folder.path, at: folder.path, under: () => [], over: () => [] });
    const opened = (taskID: string) => expect.poll(() => boxes.pidsOf(taskID)[0], { timeout: 5000 }).toBeGreaterThan(0);
    return { boxes, use, opened, busy };
  };

  test("the longest unused goes first, a busy one never, nor the one that is asked for", async () => {
    const { boxes, use, opened, busy } = open({ kept: 2 });
    for (const task of ["a", "b"]) {
      use(task);
      await opened(task);
    }
    use("a");
    use("c");
    await opened("c");
    expect(["a", "b", "c"].map((task) => boxes.pidsOf(task)[0] !== undefined)).toEqual([true, false, true]);
    for (const task of ["a", "c"]) busy.add(task);
    const name = use("d");
    await opened("d");
    expect(use("d")).toBe(name);
  });

  test("one that nobody uses goes, and is made anew", async () => {
    const { boxes, use, opened } = open({ idleMs: 1500 });
    const before = use("a");
    await opened("a");
    await expect.poll(() => boxes.pidsOf("a")[0], { timeout: 8000 }).toBe(undefined);
    expect(use("a")).not.toBe(before);
    await opened("a");
  });

  test("killed from outside: the next command has a fresh one, and says nothing", async () => {
    const at = scene(sandbox);
    const run = runner(at);
    await run("task_a", "touch /tmp/before");
    const marked = () => markedOf(at.folder);
    // Also in the very moment in which the next command is sent.
    for (const round of [1, 2, 3]) {
      expect(marked().length).toBeGreaterThan(0);
      for (const pid of marked())
        try {
          process.kill(pid, "SIGKILL");
        } catch {}
      expect(await run("task_a", `echo ${round}`)).toMatchObject({ ended: "exit", exitCode: 0, output: `${round}\n` });
    }
  });

  test("a command that kills all that it can see does not harm the next one", async () => {
    const run = runner(scene(sandbox));
    expect(await run("task_a", "kill -9 -1; echo alone")).toMatchObject({ ended: "exit", output: "alone\n" });
    expect(await run("task_a", "echo next")).toMatchObject({ exitCode: 0, output: "next\n" });
  });

  test("the next command's processes are made while nothing runs, but for one that is to be fresh", async () => {
    const run = runner(scene(sandbox));
    /** How much later than it was asked for its shell was made, in hundredths of a second, as the kernel counts. */
    const madeAfter = async (command: Partial<Command> = {}) => {
      const asked = Math.floor(Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 100);
      const { stdout } = await run("task_a", "read -ra stat </proc/$$/stat; echo ${stat[21]}", command);
      return Number(stdout) - asked;
    };
    // As soon as there was time for it.
    await expect.poll(() => madeAfter(), { timeout: 15_000, interval: 200 }).toBeLessThan(-1);
    for (let count = 0; count < 3; count += 1) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      expect(await madeAfter({ fresh: true })).toBeGreaterThanOrEqual(-1);
    }
    // After one that was fresh there may be another, so nothing is made.
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(await madeAfter()).toBeGreaterThanOrEqual(-1);
    await expect.poll(() => madeAfter(), { timeout: 15_000, interval: 200 }).toBeLessThan(-1);
  });

  test("what waits for a command is like what is made for it: descriptors, parents, groups, variables", async () => {
    const run = runner(scene(sandbox));
    const seen =
      "ls /proc/$$/fd; readlink /proc/$$/fd/*; read -ra stat </proc/$$/stat; echo $((stat[4] == $$)) ${stat[5]}; env -u SERVICE_RUN_ID | sort; echo $- $0 $BASH_EXECUTION_STRING; ulimit -a; umask";
    await run("task_a", "true");
    const [ready, fresh] = [await run("task_a", seen), await run("task_a", seen, { fresh: true })];
    expect(ready).toMatchObject({ exitCode: 0, output: expect.stringContaining("HUSKY=0\n") as string });
    expect(ready.output).not.toMatch(/^(?:LC_ALL|CHILD_MAX|OLDPWD)=/m);
    const slotless = (output: string) => output.replaceAll(/\/\d+(?=\.[012]\n)/g, "/slot");
    expect(slotless(ready.output)).toBe(slotless(fresh.output));
  });

  test("a command that is too long to be handed over runs all the same", async () => {
    const run = runner(scene(sandbox));
    for (const length of [100, 7000, 70_000])
      expect(await run("task_a", `x=${"a".repeat(length)}; echo \${#x}`)).toMatchObject({ output: `${length}\n` });
  });

  test.each(["the processes that wait for the next command", "the one that would tell its end"])(
    "%s, killed from outside: the command says nothing",
    async (which) => {
      const at = scene(sandbox);
      const run = runner(at);
      const marked = () => markedOf(at.folder);
      for (const gap of [0, 200]) {
        await run("task_a", "true");
        await expect.poll(() => marked().length, { timeout: 5000 }).toBeGreaterThan(2);
        const [waiter = 0, waiting = 0] = marked().slice(-2);
        for (const pid of which.startsWith("the processes") ? [waiter, waiting] : [waiter])
          process.kill(pid, "SIGKILL");
        await new Promise((resolve) => setTimeout(resolve, gap));
        expect(await run("task_a", "echo next")).toMatchObject({ ended: "exit", output: "next\n" });
      }
    },
  );

  test("is made ahead", async () => {
    const at = scene(sandbox);
    const tree = join(at.folder, "tree");
    mkdirSync(tree);
    const place = { tree, at: tree, under: () => [], over: () => [] };
    at.processes.prepareSandbox("task_a", place);
    const ran = await at.processes.run("task_a", { run: "echo warm", cwd: tree, ...more }, place);
    expect(ran).toMatchObject({ ended: "exit", exitCode: 0, output: "warm\n" });
  });
});

describe.each(here)("commands, in tier $tier", (sandbox) => {
  test("several at once, each with its own output", async () => {
    const run = runner(scene(sandbox));
    const numbers = Array.from({ length: 24 }, (_, at) => at);
    const ran = await Promise.all(
      numbers.map((at) => run("task_a", `for i in 1 2 3; do echo ${at}; sleep 0.01; done; exit ${at}`)),
    );
    expect(ran.map(({ exitCode, output }) => [exitCode, output])).toEqual(
      numbers.map((at) => [at, `${at}\n`.repeat(3)]),
    );
  });

  test("much output, and bytes that are no text", async () => {
    const run = runner(scene(sandbox));
    const much = await run("task_a", "head -c 30000000 /dev/zero | tr '\\0' x; echo; echo end", { keepBytes: 1000 });
    expect(much).toMatchObject({ exitCode: 0, dropped: 30_000_005 - 1000 });
    expect(much.output.endsWith("x\nend\n")).toBe(true);
    const bytes = await run("task_a", "printf '\\0\\377\\376a\\0'");
    expect(bytes.output).toBe("\0\ufffd\ufffda\0");
  });

  test("one that closes its outputs goes on; what it returns is heard", async () => {
    const run = runner(scene(sandbox));
    expect(await run("task_a", "echo said; exec >&- 2>&-; sleep 0.3; exit 7")).toMatchObject({
      exitCode: 7,
      output: "said\n",
    });
  });

  test("none reads what is not for it", async () => {
    const run = runner(scene(sandbox));
    expect((await run("task_a", 'cat; read -r x; echo "[$x]"')).output).toBe("[]\n");
  });

  test("a NUL in a command is refused, and the next one is served", async () => {
    const run = runner(scene(sandbox));
    expect(await run("task_a", "echo a\0b")).toMatchObject({ ended: "not-started", exitCode: null });
    expect(await run("task_a", "echo c")).toMatchObject({ exitCode: 0, output: "c\n" });
  });

  test("limits of files, of their size, and of memory hold; without them they do not", async () => {
    const script =
      "ulimit -n; head -c 3000000 /dev/zero > big; wc -c < big; python3 -c 'bytearray(600_000_000)' 2>&1 | tail -1";
    const none = { commandProcesses: 0, commandFiles: 0, commandFileBytes: 0, commandMemoryBytes: 0 };
    const limits = { ...none, commandFiles: 77, commandFileBytes: 1024 ** 2, commandMemoryBytes: 400 * 1024 ** 2 };
    const limited = await runner(scene(sandbox, { limits }))("task_a", script);
    expect(limited.stdout).toBe("77\n1048576\nMemoryError\n");
    const free = await runner(scene(sandbox, { limits: none }))("task_a", script);
    expect(free.stdout).toMatch(/^\d+\n3000000\n$/);
  });

  test.runIf(existsSync("/proc/self/oom_score_adj"))(
    "where memory runs out they are ended before the service, which keeps its own place",
    async () => {
      const score = (of = "self") => Number(readFileSync(`/proc/${of}/oom_score_adj`, "utf8"));
      const own = score();
      const at = scene(sandbox);
      const script = "cat /proc/$$/oom_score_adj; sh -c 'cat /proc/$$/oom_score_adj'";
      const wanted = Math.min(1000, own + 500);
      expect((await runner(at)("task_a", script)).stdout).toBe(`${wanted}\n${wanted}\n`);
      const tree = join(at.folder, "task_a");
      const talking = await at.processes.startInteractive(
        "task_a",
        tree,
        { run: script, env: {}, home: undefined, network: true, signal },
        { tree, at: tree, under: () => [], over: () => [] },
      );
      let text = "";
      talking.stdout.on("data", (chunk: Buffer) => (text += chunk.toString()));
      await talking.gone;
      expect(text).toBe(`${wanted}\n${wanted}\n`);
      expect(score()).toBe(own);
      // Process 1 of the sandbox is what holds its memory: it cannot take the service's place either.
      if (sandbox.tier === 1)
        expect((await runner(at)("task_a", "echo 0 > /proc/self/oom_score_adj")).output).toMatch(/Read-only|denied/);
      const runners = execFileSync("pgrep", ["-P", String(process.pid), "-f", "process/runner/main"], {
        encoding: "utf8",
      });
      for (const pid of runners.trim().split("\n")) expect(score(pid)).toBe(own);
    },
  );

  test("variables that the operator names", async () => {
    const keepEnv = { PATH: path, GOPROXY: "https://proxy.example", OTHER: "x" };
    const run = runner(scene(sandbox, { keepEnv, envNames: ["GOPROXY", "ABSENT"] }));
    expect((await run("task_a", 'echo "$GOPROXY|${OTHER-}|${ABSENT-none}|$HUSKY"')).output).toBe(
      "https://proxy.example||none|0\n",
    );
  });
});

describe("toolchains", () => {
  const tools: Record<string, string> = {
    rustc: "rustc --version",
    cargo: "cargo --version",
    python3: "python3 --version",
    node: "node --version",
    npm: "npm --version",
    git: "git --version",
    go: "go version",
    java: "java -version",
  };
  const present = Object.keys(tools).filter((name) => findProgram(name, path) !== undefined);
  const missing = Object.keys(tools).filter((name) => !present.includes(name));
  if (missing.length > 0)
    process.stderr.write(`\n!!! NOT TRIED in the sandbox, because not installed: ${missing.join(", ")}.\n\n`);

  test.each(here)("start in tier $tier with another HOME", { timeout: 60_000 }, async (found) => {
    const home = process.env["HOME"] ?? "/root";
    const sandbox = { ...found, env: toolEnv({ home, env: process.env }, found.network) };
    const run = runner(scene(sandbox));
    for (const name of present) {
      const ran = await run("task_a", `${tools[name]} && [ $HOME = /tmp ]`);
      expect({ name, exitCode: ran.exitCode, output: ran.exitCode === 0 ? "" : ran.output }).toEqual({
        name,
        exitCode: 0,
        output: "",
      });
    }
  });

  test("moved ones are named and readable; what they are not is left alone", async () => {
    const folder = temporary();
    onTestFinished(() => folder[Symbol.dispose]());
    writeFiles(folder.path, {
      "opt/rustup/settings.toml": "x\n",
      "home/.rustup/x": "",
      "home/.cargo/registry/x": "",
      "home/.cargo/bin/x": "",
    });
    const home = join(folder.path, "home");
    const moved = { RUSTUP_HOME: join(folder.path, "opt/rustup"), JAVA_HOME: "/not/there", GOROOT: "relative" };
    expect(toolEnv({ home, env: moved }, false)).toEqual({
      RUSTUP_HOME: moved.RUSTUP_HOME,
      RUSTUP_AUTO_INSTALL: "0",
      CARGO_HOME: join(home, ".cargo"),
      CARGO_NET_OFFLINE: "true",
    });
    expect(toolEnv({ home }, true)).toEqual({ RUSTUP_HOME: join(home, ".rustup"), RUSTUP_AUTO_INSTALL: "0" });
    if (first?.tier !== 1) return;
    const machine = { path, home, env: moved, paths: [], dataDir: join(folder.path, "data") };
    const sandbox = bubblewrapSandbox(machine, false, findProgram("bwrap", path) ?? "");
    expect(await selfTest(sandbox, path)).toMatchObject({ ok: true });
    const run = runner(scene(sandbox));
    expect((await run("task_a", `cat $RUSTUP_HOME/settings.toml; ${writable("$RUSTUP_HOME/x")}`)).output).toBe(
      "x\n$RUSTUP_HOME/x ro\n",
    );
    writeFileSync(join(folder.path, "opt/secret"), "s");
    expect((await run("task_a", `ls ${join(folder.path, "opt")}`)).output).toBe("rustup\n");
  });
});
