import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { rgPath } from "@vscode/ripgrep";
import { describe, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import type { Sandbox } from "../../src/process/sandbox/sandbox.ts";
import { createProcesses } from "../../src/process/service.ts";
import { defaultLimits } from "../../src/protocol/limit.ts";
import { searchFiles } from "../../src/tool/file/ripgrep.ts";
import { createWorkspaces } from "../../src/workspace/service.ts";
import { makeProject, temporary } from "../harness/project.ts";
import { sandboxesHere } from "../harness/sandboxes.ts";

/**
 * Programs that the service itself runs over a Task's files. An agent can exchange a folder for a link between the look
 * at a path and the program's own: so the path that the program is given may lead anywhere. Here it does from the
 * start.
 */

const secret = "the-outside-secret";

const open = async (sandbox: Sandbox, isolation: "directory" | "worktree" = "directory") => {
  const folder = temporary("sortie-own-programs-");
  const at = (name: string) => join(realpathSync(folder.path), name);
  mkdirSync(at("outside"));
  writeFileSync(at("outside/notes.txt"), `${secret}\n`);
  const directory = makeProject(at("project"), { "a.txt": `inside ${secret}\n` });
  symlinkSync(at("outside"), join(directory, "d"));
  const processes = createProcesses({ folder: at("data/processes"), keepEnv: process.env, sandbox, log: silent });
  const workspaces = createWorkspaces({
    dataDir: at("data"),
    projectRoots: [],
    processes,
    limits: defaultLimits,
    log: silent,
  });
  const workspace = await workspaces.prepare({ taskID: "task_1", directory, isolation, landing: "none" });
  return {
    directory,
    outside: at("outside"),
    workspace,
    async [Symbol.asyncDispose]() {
      await processes.stop();
      folder[Symbol.dispose]();
    },
  };
};

const args = (path: string) => [
  "--no-config",
  "--no-follow",
  "--null",
  "--with-filename",
  "--line-number",
  secret,
  "--",
  path,
];
const never = new AbortController().signal;
const here = await sandboxesHere();
const tier1 = here.find(({ tier }) => tier === 1);

describe.each(here.map((sandbox) => ({ sandbox, tier: sandbox.tier })))("search in tier $tier", ({ sandbox, tier }) => {
  test("finds what is in the project", async () => {
    await using lab = await open(sandbox);
    const found = await searchFiles(lab.workspace, args("./a.txt"), never);
    expect(found).toMatchObject({ stopped: undefined, error: undefined });
    expect(found.output.toString()).toBe(`./a.txt\u00001:inside ${secret}\n`);
  });

  test.runIf(tier === 1)(
    "a link where a folder was leads it nowhere; control: outside of the sandbox it does",
    async () => {
      await using lab = await open(sandbox);
      const bare = execFileSync(rgPath, args("./d"), { cwd: lab.directory, encoding: "utf8" });
      expect(bare).toContain(secret);
      const found = await searchFiles(lab.workspace, args("./d"), never);
      expect(found.output.toString()).toBe("");
      expect(found.error).toMatch(/No such file or directory/);
    },
  );

  test("more than it takes ends it with its Task's processes, and says so", async () => {
    await using lab = await open(sandbox);
    writeFileSync(join(lab.directory, "large.txt"), `${secret} ${"x".repeat(90)}\n`.repeat(20_000));
    const found = await searchFiles(lab.workspace, args("./large.txt"), never);
    expect(found.stopped).toBe("there are more matches than are looked at");
    expect(found.output.length).toBeGreaterThan(1024 * 1024);
  });
});

describe.each(["directory", "worktree"] as const)("git in tier 1, %s", (isolation) => {
  test.runIf(tier1 !== undefined)(
    "reads and writes no file outside; control: outside of the sandbox it does",
    async () => {
      await using lab = await open(tier1 as Sandbox, isolation);
      const { git: own, root } = lab.workspace;
      if (own === undefined) throw new Error("Expected git over the files, got none.");
      const [notes, made] = [join(lab.outside, "notes.txt"), join(lab.outside, "made")];
      const bare = (...args: string[]) => execFileSync("git", args, { cwd: lab.directory, encoding: "utf8" });
      expect(bare("hash-object", "--", notes).trim()).toMatch(/^[0-9a-f]{40}$/);
      await expect(own.run(["hash-object", "--", notes])).rejects.toThrow(/could not open.*No such file/);
      // Of the project itself it reads.
      writeFileSync(join(root, "new.txt"), "new\n");
      expect((await own.run(["hash-object", "--", "new.txt"])).stdout.toString().trim()).toMatch(/^[0-9a-f]{40}$/);

      await own.run(["diff", `--output=${made}`, "HEAD"]).catch(() => undefined);
      expect(existsSync(made)).toBe(false);
      bare("diff", `--output=${made}`, "HEAD");
      expect(existsSync(made)).toBe(true);
    },
  );
});
