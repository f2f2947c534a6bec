import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silent } from "../../src/log.ts";
import { defaultLimits } from "../../src/protocol/limit.ts";
import { createProcesses } from "../../src/process/service.ts";
import type { LandingPlan, Workspace } from "../../src/workspace/workspace.ts";
import type { Commit } from "../../src/workspace/object/commit.ts";
import { createWorkspaces, type WorkspacesOptions } from "../../src/workspace/service.ts";

/** A user's project with a service beside it, in a temporary folder. */

export const createScene = () => {
  const base = realpathSync(mkdtempSync(join(tmpdir(), "sortie-workspace-")));
  const root = join(base, "project");
  const dataDir = join(base, "data");
  mkdirSync(root);
  mkdirSync(dataDir);
  const spawned: string[][] = [];
  const processes = createProcesses({ folder: join(dataDir, "processes"), keepEnv: process.env, log: silent });

  /** A shell of the user's, in the project. */
  const sh = (script: string, cwd = root): string => {
    const { status, stdout, stderr } = spawnSync("bash", ["-ec", script], {
      cwd,
      encoding: "latin1",
      timeout: 20_000,
      env: {
        PATH: process.env["PATH"],
        HOME: base,
        LC_ALL: "C.UTF-8",
        GIT_OPTIONAL_LOCKS: "0",
        GIT_TEMPLATE_DIR: process.env["GIT_TEMPLATE_DIR"],
      },
    });
    if (status !== 0) throw new Error(`${script}: exit ${status}: ${stderr}`);
    return stdout;
  };
  writeFileSync(
    join(base, ".gitconfig"),
    '[user]\nname = User\nemail = user@example.org\n[init]\ndefaultBranch = main\n[advice]\ndetachedHead = false\n[protocol "file"]\nallow = always\n',
  );

  const service = (more: Partial<WorkspacesOptions> = {}) =>
    createWorkspaces({
      dataDir,
      projectRoots: [],
      processes,
      limits: defaultLimits,
      log: silent,
      onSpawn: (args) => spawned.push([...args]),
      ...more,
    });

  return {
    base,
    root,
    dataDir,
    spawned,
    sh,
    service,
    async [Symbol.asyncDispose]() {
      await processes.stop();
      rmSync(base, { recursive: true, force: true });
    },
  };
};

export type Scene = ReturnType<typeof createScene>;

/** What a user can see of a project: branch, files with modes and bytes, index, status, soundness. */
export const picture = ({ sh }: Pick<Scene, "sh">) => {
  const parts = sh(`git symbolic-ref -q HEAD || true; echo ==
    git rev-parse HEAD; echo ==
    find . -path ./.git -prune -o -not -type d -printf '%p %y %m %l\n' | LC_ALL=C sort; echo --
    find . -path ./.git -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha1sum; echo ==
    find . -path ./.git -prune -o -type d -print | LC_ALL=C sort; echo ==
    git ls-files -s; echo ==
    git status --porcelain -uall; echo ==
    find .git -maxdepth 1 \\( -name '*sortie*' -o -name '*.lock' \\)`).split("==\n");
  const [head = "", commit = "", files = "", folders = "", index = "", status = "", leftOver = ""] = parts;
  return { head: head.trim(), commit: commit.trim(), files, folders, index, status, leftOver };
};

export const fsck = ({ sh }: Scene): string =>
  sh("git fsck --strict 2>&1").replace(/^(dangling|notice).*\n|^Checking.*\n/gm, "");

export const prepare = (workspaces: ReturnType<Scene["service"]>, directory: string, taskID = "task_1") =>
  workspaces.prepare({ taskID, directory, isolation: "worktree", landing: "commit" });

/** Commit, plan and land in one; throws where a refusal is not expected. */
export const landAll = async (
  workspaces: ReturnType<Scene["service"]>,
  workspace: Workspace,
  message = "work",
): Promise<{ commit: Commit; plan: LandingPlan; kept: string[] }> => {
  const commit = await workspace.commit(message);
  if (commit === undefined) throw new Error("nothing to land");
  const plan = await workspaces.plan(workspace, commit, workspace.prepared.baseCommit ?? "");
  if ("reason" in plan) throw new Error(`refused: ${JSON.stringify(plan)}`);
  const landed = await workspaces.land(workspace, plan);
  if (!landed.ok) throw new Error(`withdrawn: ${landed.reason}`);
  return { commit, plan, kept: landed.kept };
};
