import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTamperGuard, type Tampered } from "../../src/workspace/tamper/guard.ts";
import { createTask, logOf, makeLab, post, settledTask, shell } from "../harness/double/hostile-text.ts";
import { git, gitEnv, makeProject, temporary } from "../harness/project.ts";
import { sandboxesHere } from "../harness/sandboxes.ts";
import { startService, type TestService } from "../harness/service.ts";
import { everyday, ordinary, tricks as tricksByMechanism } from "./tampering.ts";
import { sampleByDay } from "../harness/night.ts";
import { slowness } from "../harness/pace.ts";

/** C7: what makes git run programs, changed by a command where no sandbox forbids it. */

const version = (/(\d+)\.(\d+)/.exec(execFileSync("git", ["version"], { encoding: "utf8" })) ?? [])
  .slice(1)
  .map(Number);

/** Those that this machine's git knows. */
const mechanisms = Object.fromEntries(
  Object.entries(tricksByMechanism).filter(([, { git: needed = [2, 0] }]) => {
    const [major = 0, minor = 0] = version;
    return major > needed[0] || (major === needed[0] && minor >= needed[1]);
  }),
);

/** A project, and what its user and an agent's commands do in it. */
const makeScene = (setup = ":") => {
  const root = temporary();
  const project = makeProject(join(root.path, "project"), { "a.txt": "a" });
  const at = { P: project, G: join(project, ".git"), W: join(root.path, "w"), M: join(root.path, "marker") };
  mkdirSync(at.W);
  const bash = (run: string) => {
    const env = { ...gitEnv(root.path), ...at, GIT_CONFIG_NOSYSTEM: "1" };
    const { status, stderr } = spawnSync("bash", ["-c", run], {
      cwd: project,
      env,
      encoding: "utf8",
      input: "",
      timeout: 15_000,
    });
    return status === 0 ? "" : stderr;
  };
  expect(bash(`set -e; ${setup}`)).toBe("");
  rmSync(at.M, { force: true });
  return {
    at,
    async commands(plant: string | readonly string[], guarded: boolean) {
      const guard = createTamperGuard({ commonDir: at.G, taskID: "task_x" });
      const found: Tampered[] = [];
      for (const command of [plant].flat()) {
        if (guarded) await guard.begin();
        bash(command);
        if (guarded) found.push(...(await guard.end()));
      }
      rmSync(at.M, { force: true });
      return found;
    },
    /** Whether the agent's program runs, or what is the user's goes to the agent's place. */
    uses(command = everyday): boolean {
      bash(command);
      return existsSync(at.M);
    },
    [Symbol.dispose]: () => root[Symbol.dispose](),
  };
};

const marker = (folder: string) => `${folder}.ran`;

/**
 * Each ends in the user's next plain git command running a program, unless it is undone. `$G` is the repository's own
 * folder.
 */
const tricks: Record<string, string> = {
  "core.fsmonitor": 'git -C $P config core.fsmonitor "touch $M; false"',
  "core.hooksPath":
    'mkdir -p $M.h && printf "#!/bin/sh\\ntouch $M\\n" > $M.h/post-index-change && chmod +x $M.h/post-index-change && git -C $P config core.hooksPath $M.h',
  "a hook": 'printf "#!/bin/sh\\ntouch $M\\n" > $G/hooks/post-index-change && chmod +x $G/hooks/post-index-change',
  "include.path": 'printf "[core]\\n\\tfsmonitor = touch $M; false\\n" > $M.i && git -C $P config include.path $M.i',
  "a filter by attributes":
    'git -C $P config filter.x.clean "touch $M; cat" && mkdir -p $G/info && echo "* filter=x" > $G/info/attributes',
  "an alias": 'git -C $P config alias.st "!touch $M"',
  "a config that is moved in":
    'cp $G/config $M.c && git config -f $M.c core.fsmonitor "touch $M; false" && mv $M.c $G/config',
};

const userCommands = [["status"], ["add", "-A"], ["st"], ["checkout", "-q", "HEAD"]];

const ranOn = (project: string, marks: string): boolean => {
  writeFileSync(join(project, "a.txt"), `${Math.random()}`);
  for (const command of userCommands)
    try {
      execFileSync("git", command, { cwd: project, stdio: "ignore" });
    } catch {}
  return existsSync(marks);
};

describe("C7 fingerprint", () => {
  let lab: Awaited<ReturnType<typeof makeLab>>;
  let service: TestService;
  beforeAll(async () => {
    lab = await makeLab({}, 3);
    service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
  });
  afterAll(async () => {
    await service.close();
    await lab[Symbol.asyncDispose]();
  });

  test.each(sampleByDay("tricks", Object.entries(tricks), 6))(
    "%s: found, put back, and the Task ends with the evidence",
    async (_name, trick) => {
      const project = makeProject(lab.folder(), { "a.txt": "a" });
      const before = readFileSync(join(project, ".git/config"), "utf8");
      const command = `M=${marker(project)}; P=${project}; G=$P/.git; ${trick}; echo more > b.txt`;
      const id = await createTask(service.url, project, lab.request([shell(command), { text: "Done." }]));
      const status = await settledTask(service.url, id);
      expect([status.lifecycleStatus, status.errorInfo?.code, existsSync(join(project, "b.txt"))]).toEqual([
        "failed",
        "git_tampered",
        false,
      ]);
      expect(readFileSync(join(project, ".git/config"), "utf8")).toBe(before);
      expect(ranOn(project, marker(project))).toBe(false);
      const fact = (await logOf(service.url, id)).find(({ type }) => type === "git.tampered");
      const files = fact?.type === "git.tampered" ? fact.data.files : [];
      expect([files.length > 0, files.every(({ restored }) => restored)]).toEqual([true, true]);
    },
  );

  test("what users do meanwhile is no tampering, and a Task that goes on after a message lands", async () => {
    const project = makeProject(lab.folder(), { "a.txt": "a" });
    git(project, "remote", "add", "origin", "https://example.org/a.git");
    const meanwhile = [
      `cd ${project}`,
      "git config user.name Somebody",
      "git config branch.main.remote origin",
      "touch .git/config",
      "chmod -x .git/hooks/* 2>/dev/null; printf x > .git/hooks/not-executable",
    ].join("; ");
    const good = await createTask(
      service.url,
      project,
      lab.request([shell(`(${meanwhile}); echo more > b.txt`), { text: "Done." }]),
    );
    expect((await settledTask(service.url, good)).lifecycleStatus).toBe("completed");
    expect(git(project, "config", "user.name")).not.toBe("");

    const turns = [
      shell(`git -C ${project} config alias.x '!false'; echo c > c.txt`),
      { text: "Done." },
      { text: "Done." },
    ];
    const bad = await createTask(service.url, project, lab.request(turns));
    expect((await settledTask(service.url, bad)).errorInfo?.code).toBe("git_tampered");
    await post(service.url, `/task/${bad}/message`, project, { text: "go on", source: "user" });
    expect((await settledTask(service.url, bad)).lifecycleStatus).toBe("completed");
    expect(existsSync(join(project, "c.txt"))).toBe(true);
  });

  test("a change of the user's between two commands is the new state of things", async () => {
    using root = temporary();
    const project = makeProject(join(root.path, "p"), { "a.txt": "a" });
    const fingerprint = createTamperGuard({ commonDir: join(project, ".git"), taskID: "task_x" });
    await fingerprint.begin();
    expect(await fingerprint.end()).toEqual([]);
    git(project, "config", "core.editor", "vim");
    await fingerprint.begin();
    expect(await fingerprint.end()).toEqual([]);
    await fingerprint.begin();
    git(project, "config", "core.editor", "evil");
    const config = join(project, ".git/config");
    expect(await fingerprint.end()).toEqual([
      { path: config, change: "changed", restored: true, kept: `${config}.found-by-task_x` },
    ]);
    expect(git(project, "config", "core.editor")).toBe("vim");
    expect(readFileSync(`${config}.found-by-task_x`, "utf8")).toContain("evil");
  });

  test.each(sampleByDay("controls of tricks", Object.entries(tricks), 6))(
    "control: %s runs a program of the agent's at the user's next git command",
    (_name, trick) => {
      using root = temporary();
      const project = makeProject(join(root.path, "p"), { "a.txt": "a" });
      execFileSync("bash", ["-c", `M=${marker(project)}; P=${project}; G=$P/.git; ${trick}`], { cwd: project });
      expect(ranOn(project, marker(project))).toBe(true);
    },
  );

  test.each(sampleByDay("mechanisms", Object.entries(mechanisms), 24))(
    "%s: runs nothing, control: without the guard it does",
    { timeout: 60_000 },
    async (_name, trick) => {
      for (const guarded of [false, true]) {
        using scene = makeScene(trick.setup);
        const found = await scene.commands(trick.plant, guarded);
        expect([guarded, scene.uses(trick.use)]).toEqual([guarded, !guarded]);
        expect(found.length > 0, JSON.stringify(found)).toBe(guarded);
        if (guarded) expect(found.filter(({ restored }) => !restored)).toEqual([]);
      }
    },
  );

  test.each(sampleByDay("ordinary work", Object.entries(ordinary), 12))(
    "%s: no tampering",
    async (_name, { setup, act }) => {
      using scene = makeScene(setup);
      expect(await scene.commands(act, true)).toEqual([]);
    },
  );

  test("a look costs less than 0.3 ms", async () => {
    using root = temporary();
    const project = makeProject(join(root.path, "p"), { "a.txt": "a" });
    writeFileSync(join(project, ".git/hooks/pre-commit"), "#!/bin/sh\n");
    chmodSync(join(project, ".git/hooks/pre-commit"), 0o755);
    const fingerprint = createTamperGuard({ commonDir: join(project, ".git"), taskID: "task_x" });
    const round = async () => {
      const begun = process.threadCpuUsage();
      for (let count = 0; count < 100; count += 1) {
        await fingerprint.begin();
        await fingerprint.end();
      }
      const { user, system } = process.threadCpuUsage(begun);
      return (user + system) / 1000 / 100;
    };
    const ms = Math.min(await round(), await round(), await round(), await round(), await round(), await round());
    console.log(`C7: ${ms.toFixed(3)} ms a command`);
    expect(ms).toBeLessThan(0.3 * slowness());
  });
});

/** Those that need no place outside of the project: in tier 1 there is none. */
const inTree = [
  "a hook that is a link into the work tree",
  "a hook in a folder of the work tree",
  "a hook in a folder of the work tree that is not tracked",
  "an included file of the work tree",
  "an attributes file that the configuration names",
  "a submodule whose folder is exchanged for another",
  "a submodule in a folder that is exchanged for another",
  "a repository in the place of a submodule that nobody has fetched",
  "a submodule that keeps its own folder",
];
const hasTier1 = (await sandboxesHere()).some(({ tier }) => tier === 1);

describe.runIf(hasTier1)("in place in tier 1, where the Git directory is read-only", { timeout: 60_000 }, () => {
  let lab: Awaited<ReturnType<typeof makeLab>>;
  let service: TestService;
  beforeAll(async () => {
    lab = await makeLab();
    service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
  });
  afterAll(async () => {
    await service.close();
    await lab[Symbol.asyncDispose]();
  });
  const settled = async (directory: string, turn: ReturnType<typeof shell>) => {
    const body = { ...lab.request([turn, { text: "Done." }]), isolation: "directory" };
    const id = await createTask(service.url, directory, body);
    return { id, ...(await settledTask(service.url, id)) };
  };

  test.each(inTree)("%s: runs nothing", async (name) => {
    const { setup, plant = ":", use } = tricksByMechanism[name] ?? {};
    using scene = makeScene(setup);
    const set = Object.entries(scene.at).map(([key, value]) => `${key}=${value}; `);
    const command = `${set.join("")}${[plant].flat().join("; ")}`;
    const { lifecycleStatus, errorInfo } = await settled(scene.at.P, shell(command));
    // Nested repositories are read-only there, if the command cannot move them.
    if (name !== "a submodule that keeps its own folder")
      expect([lifecycleStatus, errorInfo?.code]).toEqual(["failed", "git_tampered"]);
    expect(scene.uses(use)).toBe(false);
  });

  test.each([
    ["an included file", "git config include.path ../.gitconfig; : > .gitconfig", ".gitconfig"],
    ["a hook", "mkdir .githooks; git config core.hooksPath .githooks", ".githooks/post-index-change"],
    ["what a hook is a link to", "mkdir tools; ln -s ../../tools/hook.sh $G/hooks/post-index-change", "tools/hook.sh"],
  ])("the tools do not write %s, control: they write beside it", async (_name, setup, path) => {
    using scene = makeScene(setup);
    const turn = (wanted: string) => ({
      calls: [{ tool: "write", input: { path: wanted, content: `[core]\n\tfsmonitor = touch ${scene.at.M}\n` } }],
    });
    const { id } = await settled(scene.at.P, turn(path));
    const said = (await logOf(service.url, id)).find(({ type }) => type === "tool.finished");
    expect(said?.type === "tool.finished" && said.data.outcome).toBe("error");
    expect(existsSync(join(scene.at.P, path)) && readFileSync(join(scene.at.P, path), "utf8")).toBeFalsy();
    await settled(scene.at.P, turn("beside"));
    expect(existsSync(join(scene.at.P, "beside"))).toBe(true);
  });
});
