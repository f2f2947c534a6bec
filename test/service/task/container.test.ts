import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { doctor } from "../../../src/cli/doctor/doctor.ts";
import { createScreen } from "../../../src/cli/terminal/screen.ts";
import { loadConfig } from "../../../src/config/config.ts";
import { silent } from "../../../src/log.ts";
import { createProcesses } from "../../../src/process/service.ts";
import { findProgram } from "../../../src/process/sandbox/sandbox.ts";
import { sandboxOf } from "../../../src/service/machine.ts";
import { runsContainers } from "../../harness/container-engine.ts";
import { createTask, logOf, makeLab, send, settledTask } from "../../harness/double/hostile-text.ts";
import type { MockTurn } from "../../harness/double/mock-provider.ts";
import { makeEngine, makeRoot, reference, withGit } from "../../harness/image.ts";
import { git, makeProject, temporary } from "../../harness/project.ts";
import { sandboxesHere } from "../../harness/sandboxes.ts";
import { startService, type TestService } from "../../harness/service.ts";

/**
 * A machine without bubblewrap: a container of an image is the sandbox. The engine is the tests' own, the suites of
 * escapes and survivors take a real one (test/harness/container.ts).
 */

const hasTier1 = (await sandboxesHere()).some(({ tier }) => tier === 1);
const path = process.env["PATH"] ?? "";

let lab: Awaited<ReturnType<typeof makeLab>>;
let service: TestService;
let shop: string;
let bin: string;
let engine: ReturnType<typeof makeEngine>;
let root: string;
let secret: string;
/** Where the machine's own git was started. */
const gitRuns = () => readFileSync(join(lab.root, "git-runs"), "utf8").trim().split("\n");

const programs =
  "bash sh env cat cp rm mv mkdir ls tr wc id sort head sed grep find chmod dirname readlink mkfifo node unshare setpriv ip true";

/** What the service needs, but neither bwrap nor an engine; git says where it is run. */
const machineWithoutBubblewrap = (folder: string): string => {
  mkdirSync(folder);
  for (const name of programs.split(" ")) {
    const from = findProgram(name, path);
    if (from !== undefined) symlinkSync(from, join(folder, name));
  }
  const real = findProgram("git", path) ?? "";
  writeFileSync(join(folder, "git"), `#!/bin/bash\necho "$PWD $*" >> '${lab.root}/git-runs'\nexec ${real} "$@"\n`, {
    mode: 0o755,
  });
  return folder;
};

const configured = (sandbox: object) => {
  const file = join(lab.root, `config-${Math.random()}.json`);
  writeFileSync(file, JSON.stringify({ ...(JSON.parse(readFileSync(lab.config, "utf8")) as object), sandbox }));
  return file;
};
const image = { containers: "experimental", image: reference };

beforeAll(async () => {
  if (!hasTier1) return;
  lab = await makeLab({ checkRounds: 0 });
  writeFileSync(join(lab.root, "git-runs"), "");
  root = join(lab.root, "image");
  makeRoot(root);
  withGit(root);
  engine = makeEngine(lab.root, root, runsContainers(lab.root, root));
  bin = machineWithoutBubblewrap(join(lab.root, "bin"));
  secret = join(lab.root, "secret.txt");
  writeFileSync(secret, "the secret\n");
  shop = makeProject(lab.folder(), { "a.txt": "a needle\n", ".gitignore": "node_modules/\n" });
  mkdirSync(join(shop, "node_modules/dep"), { recursive: true });
  writeFileSync(join(shop, "node_modules/dep/index.js"), "dep\n");
  mkdirSync(join(lab.root, "data"));
  service = await startService(join(lab.root, "data"), {
    SERVICE_CONFIG: configured(image),
    SERVICE_SANDBOX: "required",
    PATH: `${engine.bin}:${bin}`,
  });
});
afterAll(async () => {
  if (!hasTier1) return;
  await service[Symbol.asyncDispose]();
  await lab[Symbol.asyncDispose]();
});

const call = (tool: string, input: object): MockTurn => ({ calls: [{ tool, input }] });
const shell = (command: string) => call("shell", { command });
const play = async (url: string, turns: MockTurn[], more: object = {}) => {
  const taskID = await createTask(url, shop, { ...lab.request(turns), landing: "branch", ...more });
  const status = await settledTask(url, taskID, 60_000);
  const results = (await logOf(url, taskID)).flatMap(({ type, data }) =>
    type === "tool.finished" && typeof data.output === "string" ? [data.output] : [],
  );
  return { status, results };
};
const found = (sandbox: object, PATH: string, more: Record<string, string> = {}) =>
  sandboxOf(
    loadConfig(
      { dataDir: join(lab.root, "other") },
      { PATH, HOME: lab.root, SERVICE_CONFIG: configured(sandbox), ...more },
    ),
  );

describe.runIf(hasTier1)("without bubblewrap", () => {
  test("a Task that takes a sandbox has the container: commands, files, search, git, a check and the landing", async () => {
    const turns = [
      shell(
        `cat /etc/os-release node_modules/dep/index.js; echo $FLAVOUR; cat '${secret}' '${service.dataDir}'/*.db || echo none; grep -c : /proc/net/dev`,
      ),
      call("read", { path: "a.txt" }),
      call("search", { pattern: "needle" }),
      call("edit", { path: "a.txt", old: "needle", new: "thread" }),
      shell("echo b > b.txt; git status --short"),
    ];
    const checks = [{ kind: "command", run: "grep -qx ID=small /etc/os-release && grep -q thread a.txt" }];
    const { status, results } = await play(service.url, turns, { checks });
    // Two pipes: what is said on stderr may come before or after what is printed meanwhile.
    expect(results[0]).toMatch(/ID=small\ndep\n[^]*none\n(?:cat: .*\n)*1\n/);
    expect(results[0]).not.toContain("the secret");
    expect(results.slice(1, 3).every((text) => text.includes("needle"))).toBe(true);
    expect(results[4]).toContain("b.txt");
    expect([status.lifecycleStatus, status.checks?.[0]?.state, status.sandbox]).toEqual([
      "completed",
      "passed",
      { tier: 1, name: "container", network: false },
    ]);
    expect(git(shop, "show", `${status.landingBranch}:b.txt`)).toBe("b");
    // The machine's own git makes fresh trees of commits, and never runs over what an agent has worked on.
    const over = gitRuns().filter((line) => line.includes("/worktrees/"));
    expect(over.length).toBeGreaterThan(0);
    expect(over.filter((line) => !/ read-tree --reset -u [0-9a-f]{40}$/.test(line))).toEqual([]);
    const health = await send(service.url, "/health");
    expect(health.body["sandbox"]).toEqual({ tier: 1, name: "container", network: false });
  });

  test("control: without the image the same machine has a weaker sandbox, whose commands read the machine", async () => {
    await using weaker = await startService(join(lab.root, "weaker"), {
      SERVICE_CONFIG: configured({ containers: "experimental" }),
      PATH: `${engine.bin}:${bin}`,
    });
    const before = gitRuns().length;
    const { status, results } = await play(weaker.url, [shell(`cat '${secret}'; echo b > b.txt`)]);
    expect(results[0]).toContain("the secret");
    expect(status.sandbox?.tier).toBeGreaterThan(1);
    expect(
      gitRuns()
        .slice(before)
        .some((line) => line.includes("/worktrees/") && line.includes(" status ")),
    ).toBe(true);
  });

  test("a program to talk with is in the container, has its environment from no argument, and ends however deaf it is", async () => {
    const sandbox = await found(image, `${engine.bin}:${bin}`);
    const folder = join(lab.root, "talk");
    mkdirSync(folder);
    const options = { folder: join(folder, "data/processes"), runID: folder, keepEnv: { PATH: bin }, log: silent };
    const processes = createProcesses({ ...options, sandbox });
    const tree = join(folder, "tree");
    mkdirSync(tree);
    const mark = `${Date.now()}`;
    const run = `read -r line; echo "$line $WORD $(cat /etc/os-release)"; trap '' TERM HUP; exec setsid sleep 86400.${mark}`;
    const talk = {
      run,
      env: { WORD: "so secret" },
      home: undefined,
      network: false,
      signal: new AbortController().signal,
    };
    const talking = await processes.startInteractive("task_1", tree, talk);
    talking.stdin.write("hello\n");
    const [said] = (await once(talking.stdout, "data")) as [Buffer];
    expect(said.toString()).toBe("hello so secret ID=small\n");
    const running = () =>
      execFileSync("bash", ["-c", `pgrep -fc '^sleep 86400.${mark}' || true`])
        .toString()
        .trim();
    await expect.poll(running).toBe("1");
    expect(engine.asked().some((line) => line.includes("so secret"))).toBe(false);
    talking.kill();
    await talking.gone;
    expect(running()).toBe("0");
    await processes.stop();
  });

  test("what an earlier service left is removed at the start, and nothing else", async () => {
    writeFileSync(join(lab.root, "left"), "0123abc\nno id\n");
    const sandbox = await found(image, `${engine.bin}:${bin}`);
    await sandbox.container?.sweep();
    expect(engine.asked().filter((line) => line.startsWith("rm --force"))).toEqual(["rm --force 0123abc"]);
  });

  test("doctor names it, and what it asks the image for instead of the machine", async () => {
    const mcpServers = { here: { command: "tool" }, elsewhere: { command: "node" } };
    const file = configured(image);
    writeFileSync(file, JSON.stringify({ ...(JSON.parse(readFileSync(file, "utf8")) as object), mcpServers }));
    vi.stubEnv("PATH", `${engine.bin}:${bin}`);
    vi.stubEnv("SERVICE_CONFIG", file);
    const lines: string[] = [];
    const flags = { dataDir: join(lab.root, "doctored"), port: 0 };
    await doctor(flags, createScreen(process.stdout, true), ({ name, state, text }) =>
      lines.push(`${state} ${name}: ${text}`),
    );
    vi.unstubAllEnvs();
    expect(lines).toContain(
      `ok Sandbox: container (${reference}; an experiment), tier 1, network off, system calls filtered`,
    );
    expect(lines).toContain("ok MCP here: tool, installed");
    expect(lines).toContain("bad MCP elsewhere: node is not in the image of the sandbox");
  });

  test.each<[string, object, (script: string) => string | undefined, RegExp]>([
    ["another image", { image: "localhost/other:1" }, (it) => it, /one: there is no image localhost\/other:1/],
    ["no engine", {}, () => undefined, /Nor is a container one: neither podman nor docker is on PATH/],
    [
      "no git",
      {},
      (it) => it.replace("shift\n", 'shift; set -- "${@//git --version/false}"\n'),
      /: the image has no git/,
    ],
    ["its network stays", {}, (it) => it.replace("net=(--unshare-net)", "net=()"), /lets through: .*network/],
    ["no filter", {}, (it) => it.replace("--seccomp 9", ""), /lets through: .*system-calls, set-id/],
    ["files", {}, (it) => it.replace("--chdir", "--bind /var/tmp /var/tmp --chdir"), /lets through: files/],
    ["writable", {}, (it) => it.replace("--dev /dev --remount-ro /", "--dev /dev"), /lets through: root/],
    ["no pipe", {}, (it) => it.replace("target%%[", "target/io/no}; target=${target%%["), /named pipe/],
  ])(
    "%s: refused with both reasons where one is required, and else weaker and told",
    async (name, more, change, why) => {
      const folder = join(lab.root, `engine-${name.replaceAll(" ", "-")}`);
      mkdirSync(folder);
      const script = change(runsContainers(folder, root));
      const own = script === undefined ? "" : `${makeEngine(folder, root, script).bin}:`;
      const sandbox = { ...image, ...more };
      await expect(found(sandbox, `${own}${bin}`, { SERVICE_SANDBOX: "required" })).rejects.toMatchObject({
        exitCode: 78,
        message: expect.stringMatching(why) as string,
      });
      const weaker = await found(sandbox, `${own}${bin}`);
      expect(weaker.tier).toBeGreaterThan(1);
      expect(weaker.note).toMatch(/^bwrap is not on PATH/);
    },
  );

  test.runIf(process.getuid?.() === 0)("root without a rootless engine is told to be another user", async () => {
    const folder = join(lab.root, "engine-of-root");
    mkdirSync(folder);
    const script = runsContainers(folder, root).replace("echo true", "echo false");
    const { note } = await found(image, `${makeEngine(folder, root, script).bin}:${bin}`);
    expect(note).toMatch(/the service's user is root, and so are commands in a container/);
  });
});

test("an image is refused where containers are off", () => {
  const folder = temporary();
  const file = join(folder.path, "config.json");
  writeFileSync(file, JSON.stringify({ sandbox: { image: reference } }));
  expect(() => loadConfig({ dataDir: folder.path }, { PATH: path, HOME: folder.path, SERVICE_CONFIG: file })).toThrow(
    /sandbox\.image: expected sandbox\.containers: "experimental" with it/,
  );
  folder[Symbol.dispose]();
});
