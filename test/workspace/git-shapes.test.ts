import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { createProcesses } from "../../src/process/service.ts";
import { defaultLimits } from "../../src/protocol/limit.ts";
import { createWorkspaces } from "../../src/workspace/service.ts";
import { sampleByDay } from "../harness/night.ts";
import { git, gitEnv, makeProject, temporary } from "../harness/project.ts";
import { sandboxesHere } from "../harness/sandboxes.ts";
import { shapes } from "./git-shapes.ts";

/**
 * Whatever shape an agent gives its tree and its Git directory, the Task's commit has what the tree holds, or is
 * refused in time and by name; the project stays as it was. The control: what plain git does with the same shape.
 */

const [sandbox] = await sandboxesHere();
const { signal } = new AbortController();
/** How long git may make no progress here. */
const idleMs = 700;

/** Those that no commit is made of, and why. */
const refused: Record<string, RegExp> = {
  "a FIFO for the index": /Expected a regular file at .*index", got a FIFO/,
  "a folder for the index": /Expected a regular file at .*index", got a folder/,
  "a file in UTF-16 that is not": /is missing a byte order mark/,
  "a submodule whose address is an option": /gitmodulesUrl: disallowed submodule url/,
  "a submodule whose name climbs": /gitmodulesName: disallowed submodule name/,
};
/** What waits is ended, where it can be put there at all. */
const ended = /made no progress for 700 ms|got a FIFO/;

const contents = (repository: string, commit: string): string[] =>
  git(repository, "show", "--format=", "--raw", "--no-abbrev", commit).trim().split("\n").toSorted();

/** What plain git does in a copy of the project, where a command has `seconds`. */
const plainly = (
  at: (name: string) => string,
  project: string,
  script: string,
  ours: string | undefined,
  seconds: number,
): string => {
  const copy = at("plain");
  execFileSync("cp", ["-r", project, copy]);
  const env = { ...gitEnv(at("")), HOME: at("") };
  const bash = (text: string, timeout = 20_000) => spawnSync("bash", ["-c", text], { cwd: copy, env, timeout }).status;
  // What the file of holes takes is left out of the control: hashing it takes minutes.
  if (script.includes("100G")) return "fails";
  bash(`MARK=${at("ran-plainly")}; ${script}`);
  const status = bash(`timeout ${seconds} git add -A && timeout ${seconds} git commit -qm plain`, 60_000);
  if (existsSync(at("ran-plainly"))) return "runs";
  if (status !== 0) return status === 124 ? "waits" : "fails";
  const shown = bash("git show HEAD >/dev/null", seconds * 1000);
  if (shown !== 0) return shown === null ? "waits" : "fails";
  return ours !== undefined && contents(copy, "HEAD").join() === contents(project, ours).join() ? "takes" : "differs";
};

describe.runIf(sandbox?.tier === 1)("in tier 1", () => {
  test.each(sampleByDay("shapes of a tree", shapes, 12))(
    "$name: plain git $plain",
    { timeout: 60_000 },
    async (shape) => {
      using temp = temporary();
      const at = (name: string) => join(realpathSync(temp.path), name);
      const project = makeProject(at("project"), { "a.txt": "a\n", "sub/dir/b.txt": "b\n", "run.sh": "echo\n" });
      writeFileSync(join(project, "a.txt"), "a2\n");
      git(project, "commit", "-qam", "second");
      const before = git(project, "rev-parse", "main");
      const script = `G=$(git rev-parse --absolute-git-dir); ${shape.script}\necho more > more.txt`;

      const processes = createProcesses({
        folder: at("data/processes"),
        keepEnv: process.env,
        sandbox: sandbox!,
        log: silent,
      });
      const workspaces = createWorkspaces({
        dataDir: at("data"),
        projectRoots: [],
        processes,
        limits: defaultLimits,
        log: silent,
      });
      const task = { taskID: "task_1", directory: project, isolation: "worktree", landing: "none" } as const;
      const workspace = await workspaces.prepare(task);
      const run = `MARK=${at("ran")}; ${script}`;
      await workspace.run({ run, cwd: workspace.root, timeoutMs: 20_000, keepBytes: 3000, signal });
      const made = await workspace.commit("shaped", idleMs).then(
        (commit) => commit?.commit,
        (error: unknown) => error,
      );
      await processes.stop();

      const ours = typeof made === "string" ? made : undefined;
      if (ours === undefined) expect(String(made)).toMatch(refused[shape.name] ?? ended);
      else {
        expect(refused[shape.name]).toBeUndefined();
        expect(git(project, "show", `${ours}:more.txt`)).toBe("more");
        // One commit on what it began from, with nothing in it that is no file or link, or that lies elsewhere.
        expect(git(project, "rev-parse", `${ours}^`)).toBe(before);
        expect(contents(project, ours).filter((line) => !/^:\d+ (100644|100755|120000|000000) /.test(line))).toEqual(
          [],
        );
        expect(git(project, "ls-tree", "-r", "--name-only", ours)).not.toMatch(/(^|\/)(\.\.|\.git)\//m);
      }
      expect(existsSync(at("ran"))).toBe(false);
      expect(git(project, "rev-parse", "main")).toBe(before);
      expect(git(project, "status", "--porcelain")).toBe("");
      expect(
        git(project, "for-each-ref", "--format=%(refname)").match(/^refs\/(?!heads\/main$|.*\/task_1$).*/gm),
      ).toBeNull();
      expect(spawnSync("git", ["fsck", "--full", "--strict"], { cwd: project }).status).toBe(0);
      // On a busy machine, what does not wait may take seconds.
      const seconds = shape.plain === "waits" ? 1.5 : 15;
      expect([shape.name, plainly(at, project, script, ours, seconds)]).toEqual([shape.name, shape.plain]);
    },
  );
});
