import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createTamperGuard } from "../../src/workspace/worktree/tamper.ts";
import { createTask, logOf, makeLab, post, settledTask, shell } from "../harness/double/hostile-text.ts";
import { git, makeProject, temporary } from "../harness/project.ts";
import { startService, type TestService } from "../harness/service.ts";

/** C7: what makes git run programs, changed by a command where no sandbox forbids it. */

const marker = (folder: string) => `${folder}.ran`;

/** Each ends in the user's next plain git command running a program, unless it is undone. `$G` is the repository's own folder. */
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

  test.each(Object.entries(tricks))(
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
    const meanwhile = [
      `cd ${project}`,
      "git config user.name Somebody",
      "git remote add origin https://example.org/a.git",
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

  test("a change of the user's between two commands is the new state of things", () => {
    using root = temporary();
    const project = makeProject(join(root.path, "p"), { "a.txt": "a" });
    const fingerprint = createTamperGuard({ commonDir: join(project, ".git"), taskID: "task_x" });
    fingerprint.begin();
    expect(fingerprint.end()).toEqual([]);
    git(project, "config", "core.editor", "vim");
    fingerprint.begin();
    expect(fingerprint.end()).toEqual([]);
    fingerprint.begin();
    git(project, "config", "core.editor", "evil");
    const config = join(project, ".git/config");
    expect(fingerprint.end()).toEqual([
      { path: config, change: "changed", restored: true, kept: `${config}.found-by-task_x` },
    ]);
    expect(git(project, "config", "core.editor")).toBe("vim");
    expect(readFileSync(`${config}.found-by-task_x`, "utf8")).toContain("evil");
  });

  test.each(Object.entries(tricks))(
    "control: %s runs a program of the agent's at the user's next git command",
    (_name, trick) => {
      using root = temporary();
      const project = makeProject(join(root.path, "p"), { "a.txt": "a" });
      execFileSync("bash", ["-c", `M=${marker(project)}; P=${project}; G=$P/.git; ${trick}`], { cwd: project });
      expect(ranOn(project, marker(project))).toBe(true);
    },
  );

  test("a look costs less than 0.3 ms", () => {
    using root = temporary();
    const project = makeProject(join(root.path, "p"), { "a.txt": "a" });
    writeFileSync(join(project, ".git/hooks/pre-commit"), "#!/bin/sh\n");
    chmodSync(join(project, ".git/hooks/pre-commit"), 0o755);
    const fingerprint = createTamperGuard({ commonDir: join(project, ".git"), taskID: "task_x" });
    const round = () => {
      const begun = process.threadCpuUsage();
      for (let count = 0; count < 100; count += 1) {
        fingerprint.begin();
        fingerprint.end();
      }
      const { user, system } = process.threadCpuUsage(begun);
      return (user + system) / 1000 / 100;
    };
    const ms = Math.min(...Array.from({ length: 8 }, round));
    console.log(`C7: ${ms.toFixed(3)} ms a command`);
    expect(ms).toBeLessThan(0.3);
  });
});
