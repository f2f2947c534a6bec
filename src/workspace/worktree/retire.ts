import { existsSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import { removeOverlays } from "../dependency/overlay.ts";
import type { Git } from "../git/git.ts";
import { idOf } from "../git/output.ts";
import type { createWorktreeRecords, WorktreeRecord } from "../record.ts";
import { commitTree } from "../tree/commit.ts";
import { hiddenIn, showHidden } from "../tree/hidden-flag.ts";
import { isIn, statusOf } from "../tree/status.ts";
import { listIndexFiles } from "../tree/tracked-file.ts";
import type { Retired } from "../workspace.ts";
import { branchOf, type WorktreeFolder } from "./create.ts";

/**
 * Removes worktrees that are no longer needed; their content stays on the Task's branch. A tree is removed only when
 * git confirms that everything in it is committed; ignored files are lost. It is renamed first, so that a half-removed
 * tree is never taken for a complete one.
 */

const aside = ".gone";

const removalMark = ".doomed";

export const createRetention = (deps: {
  home: string;
  folder: WorktreeFolder;
  records: ReturnType<typeof createWorktreeRecords>;
  removeOverlays: (taskID: string) => void;
  removeCheckout: (taskID: string) => Promise<void>;
  log: Log;
}) => {
  const { home, folder, records, log } = deps;
  const { worktreeOf, gitOf, gitIn, landingFolder, made } = folder;

  const takeAway = async (taskID: string, record: WorktreeRecord | undefined): Promise<void> => {
    const tree = worktreeOf(taskID);
    if (existsSync(tree)) {
      await rm(`${tree}${aside}`, { recursive: true, force: true });
      renameSync(tree, `${tree}${aside}`);
    }
    made.delete(taskID);
    if (record !== undefined) await rm(record.gitDir, { recursive: true, force: true });
    await rm(landingFolder(taskID), { recursive: true, force: true });
    deps.removeOverlays(taskID);
    await deps.removeCheckout(taskID);
    await rm(`${tree}.exclude`, { force: true });
    await rm(`${tree}${aside}`, { recursive: true, force: true });
  };

  /**
   * Commits changes beyond `tip` to a branch `<branch>.rest`. Returns why the tree cannot be shown to be committed, or
   * undefined.
   */
  const secure = async (taskID: string, record: WorktreeRecord, tip: string): Promise<string | undefined> => {
    const worktree = worktreeOf(taskID);
    if (!existsSync(join(worktree, ".git"))) await folder.repair(taskID, record, tip);
    const git = gitIn(worktree, worktree, record);
    const branch = branchOf(taskID);
    await showHidden(git, await hiddenIn(worktree, join(record.gitDir, "index"), tip.length / 2));
    const status = await statusOf(git);
    if (status.oid !== tip || status.head !== branch || status.changes.length > 0) {
      const without = record.given?.folders.map(({ path }) => path) ?? [];
      const place = { git, worktree, dirs: record, branch: `${branch}.rest`, last: undefined, without };
      const base = { commit: tip, tree: await idOf(git, `${tip}^{tree}`) };
      const message = `Left in the worktree of ${taskID}\n\nChanged after the Task's last commit.\n`;
      const rest = await commitTree({ ...place, base, message });
      const changes = (await statusOf(git)).changes.filter((change) => !without.some((path) => isIn(path, change)));
      const names = changes.slice(0, 5).map(({ path }) => path);
      if (changes.length > 0) return `these paths cannot be committed: ${names.join(", ")}`;
      if (rest === undefined) {
        await git.run(["symbolic-ref", "HEAD", `refs/heads/${branch}`]);
        await git.run(["update-ref", "-d", `refs/heads/${branch}.rest`]);
      }
    }
    // git does not look into submodules here: their content might exist nowhere else.
    const listed = await listIndexFiles(git, AbortSignal.timeout(120_000));
    const filled = listed.find(({ path, mode }) => mode === "160000" && fullFolder(join(worktree, path)));
    if (filled !== undefined) return `it has a submodule with files of its own at ${filled.path}`;
    return keepBranch(gitOf(record), branch, tip);
  };

  return {
    /** Ids with a worktree on disk or a removal mark. Deletes what an interrupted removal left. */
    listWorktrees(): string[] {
      if (!existsSync(home)) return [];
      const found = new Set<string>();
      for (const entry of readdirSync(home, { withFileTypes: true })) {
        const [taskID = "", kind] = entry.name.split(".");
        if (entry.isDirectory() && entry.name.endsWith(aside))
          rmSync(join(home, entry.name), { recursive: true, force: true });
        else if (entry.isDirectory() && taskID === "try") removeOverlays(join(home, entry.name));
        else if ((entry.isDirectory() && kind === undefined) || entry.name.endsWith(removalMark)) found.add(taskID);
        else if (kind === "json" && !existsSync(worktreeOf(taskID))) {
          const gitDir = records.of(taskID)?.gitDir;
          if (gitDir !== undefined && existsSync(gitDir)) rmSync(gitDir, { recursive: true, force: true });
        }
      }
      return [...found].sort();
    },

    /** `tip`: the commit that holds the Task's work. */
    async retire(taskID: string, tip: string): Promise<Retired> {
      const record = records.of(taskID);
      if (!existsSync(worktreeOf(taskID))) return { removed: true };
      if (record === undefined) return { removed: false, reason: "nothing says where it came from" };
      if (!existsSync(join(record.commonDir, "HEAD")))
        return { removed: false, reason: `its repository ${record.commonDir} is gone` };
      try {
        const reason = await secure(taskID, record, tip);
        if (reason !== undefined) return { removed: false, reason };
      } catch (error) {
        return { removed: false, reason: messageOf(error) };
      }
      await takeAway(taskID, record);
      return { removed: true };
    },

    /** The Task is about to be deleted: after a crash, a mark without a Task means that `remove` has to be called. */
    markForRemoval: (taskID: string): void => writeFileSync(join(home, `${taskID}${removalMark}`), "", { mode: 0o600 }),
    isMarkedForRemoval: (taskID: string): boolean => existsSync(join(home, `${taskID}${removalMark}`)),
    unmarkForRemoval: (taskID: string): void => rmSync(join(home, `${taskID}${removalMark}`), { force: true }),

    async remove(taskID: string): Promise<void> {
      const record = records.of(taskID);
      await takeAway(taskID, record);
      // The project itself may be gone or broken by now, and the branches with it.
      if (record !== undefined && existsSync(record.projectGitDir))
        for (const ref of [branchOf(taskID), `${branchOf(taskID)}.rest`])
          await gitOf(record)
            .run(["update-ref", "-d", `refs/heads/${ref}`])
            .catch((error: unknown) => log.warn({ taskID, error: messageOf(error) }, "branch not removed"));
      records.forget(taskID);
      rmSync(join(home, `${taskID}${removalMark}`), { force: true });
    },
  };
};

const fullFolder = (path: string): boolean => existsSync(path) && readdirSync(path).length > 0;

/** Makes sure that the branch still reaches `tip` once the worktree and its HEAD are gone. Returns why it does not. */
const keepBranch = async (git: Git, branch: string, tip: string): Promise<string | undefined> => {
  const ref = `refs/heads/${branch}`;
  const found = await git.run(["rev-parse", "--verify", "-q", ref], { ok: [0, 1] });
  const at = found.stdout.toString("latin1").trim();
  if (at === tip) return undefined;
  if (at === "") {
    await git.run(["update-ref", ref, tip]);
    return undefined;
  }
  const holds = await git.run(["merge-base", "--is-ancestor", tip, at], { ok: [0, 1] });
  return holds.exitCode === 0 ? undefined : `${branch} does not hold its work any more`;
};
