import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import type { Processes } from "../../process/process.ts";
import type { Limits } from "../../protocol/limit.ts";
import { removeTree } from "../file/remove-tree.ts";
import type { Git } from "../git/git.ts";
import { idOf } from "../git/output.ts";
import { baseRefOf, branchRefOf, branchTip, removeRefs, setRef } from "../object/ref.ts";
import { isServiceSetting } from "../object/take-over.ts";
import type { createWorktreeRecords, WorktreeRecord } from "../record.ts";
import { readerSandboxOwner } from "./inside.ts";
import { scratchOf } from "./in-place.ts";
import { forgetBorrowed } from "../tamper/borrowed.ts";
import { hiddenIn, clearHiddenFlags } from "../tree/hidden-flag.ts";
import { isIn, statusOf } from "../tree/status.ts";
import { listIndexFiles } from "../tree/tracked-file.ts";
import type { Retired } from "../workspace.ts";
import { commitFiles, keptRefOf } from "./commit.ts";
import { branchOf, type WorktreeFolder } from "./create.ts";
import type { createRemovalFailures } from "./removal-failure.ts";
import { indexCopyOf, removeIndexCopy } from "./snapshot.ts";

/**
 * Removes worktrees that are no longer needed; their content stays on the Task's branch. A tree is removed only when
 * git confirms that everything in it is committed; ignored files are lost. It is renamed first, so that a half-removed
 * tree is never taken for a complete one. What cannot be removed is put on record (`left-behind.ts`), and a later call
 * removes it.
 */

const gone = ".gone";

const removalMark = ".doomed";

/** All refs of a Task or fork in the project's repository. */
export const refsOf = (key: string): string[] => {
  const branch = branchRefOf(branchOf(key));
  return [branch, `${branch}.rest`, baseRefOf(key), baseRefOf(`${key}.before`), keptRefOf(key)];
};

/** The branch that keeps the result of an attempt that a retry does not continue. */
const attemptBranch = (taskID: string, attempt: number | "*"): string => `${branchOf(taskID)}.attempt-${attempt}`;

/** The refs of `refsOf`, and the branches of attempts before a retry. */
const allRefsOf = async (git: Git, key: string): Promise<string[]> => {
  const found = await git.run(["for-each-ref", "--format=%(refname)", branchRefOf(attemptBranch(key, "*"))]);
  return [
    ...refsOf(key),
    ...found.stdout
      .toString("latin1")
      .split("\n")
      .filter((ref) => ref !== ""),
  ];
};

export const createRetention = (deps: {
  home: string;
  folder: WorktreeFolder;
  records: ReturnType<typeof createWorktreeRecords>;
  removeOverlays: (taskID: string) => Promise<void>;
  removeCheckout: (taskID: string) => Promise<void>;
  processes: Pick<Processes, "closeSandboxes" | "homeOf">;
  limits: Pick<Limits, "taskDiskBytes">;
  kept: ReturnType<typeof createRemovalFailures>;
  log: Log;
}) => {
  const { home, folder, records, limits, kept, log } = deps;
  const { worktreeOf, gitDirOf, objectsOf, gitIn, landingFolder, made } = folder;

  /** Removes everything that it can; then rejects if a part could not be removed. */
  const takeAway = async (taskID: string, record: WorktreeRecord | undefined): Promise<void> => {
    const tree = worktreeOf(taskID);
    const left: unknown[] = [];
    const take = (removed: Promise<void>) => removed.catch((error: unknown) => void left.push(error));
    // An earlier removal may have left a tree under the name that this one gets now.
    if (existsSync(tree)) {
      await removeTree(`${tree}${gone}`);
      renameSync(tree, `${tree}${gone}`);
    }
    made.delete(taskID);
    removeIndexCopy(indexCopyOf(home, taskID));
    for (const gitDir of new Set([gitDirOf(taskID), record?.gitDir ?? gitDirOf(taskID)]))
      await take(removeTree(gitDir));
    await take(removeTree(scratchOf(home, taskID)));
    forgetBorrowed(home, taskID);
    await take(removeTree(landingFolder(taskID)));
    await take(deps.removeOverlays(taskID));
    await take(deps.removeCheckout(taskID));
    await take(removeTree(`${tree}.exclude`));
    await take(removeTree(`${tree}${gone}`));
    if (left.length > 0) throw left[0];
    kept.forget(taskID);
    records.unload(taskID);
  };

  /**
   * Commits changes beyond `tip` to a branch `<branch>.rest`. Returns why the tree cannot be shown to be committed, or
   * undefined.
   */
  const secure = async (taskID: string, known: WorktreeRecord, tip: string): Promise<string | undefined> => {
    const worktree = worktreeOf(taskID);
    const broken = folder.isLinked(taskID, known) || !folder.isWhole(taskID, known);
    const record = broken ? await folder.repair(taskID, known, tip) : known;
    const git = gitIn(taskID, record, { apart: "retire" });
    const objects = objectsOf(taskID, record);
    const branch = branchOf(taskID);
    const without = record.given?.folders.map(({ path }) => path) ?? [];
    await clearHiddenFlags(git, await hiddenIn(worktree, join(record.gitDir, "index"), tip.length / 2));
    const status = await statusOf(git);
    if (status.oid !== tip || status.changes.length > 0) {
      const base = { commit: tip, tree: await idOf(objects, `${tip}^{tree}`) };
      const message = `Left in the worktree of ${taskID}\n\nChanged after the Task's last commit.\n`;
      const place = { git, objects, record, worktree, key: taskID, base, without, message, author: folder.author };
      await commitFiles({ ...place, maxBytes: limits.taskDiskBytes, branch: `${branch}.rest`, last: undefined });
      const left = (await statusOf(git)).changes.filter((change) => !without.some((path) => isIn(path, change)));
      const names = left.filter(({ path }) => !isServiceSetting(path)).map(({ path }) => path);
      if (names.length > 0) return `these paths cannot be committed: ${names.slice(0, 5).join(", ")}`;
    }
    // git does not look into submodules here: their content might exist nowhere else.
    const listed = await listIndexFiles(git, AbortSignal.timeout(120_000));
    const filled = listed.find(({ path, mode }) => mode === "160000" && fullFolder(join(worktree, path)));
    if (filled !== undefined) return `it has a submodule with files of its own at ${filled.path}`;
    return keepBranch(record, objects, branch, tip);
  };

  /** Removes leftovers; what cannot be removed now is removed by a later call. */
  const clear = (taskID: string, path: string, signal: AbortSignal | undefined): Promise<void> =>
    removeTree(path, signal).catch((error: unknown) => {
      if (signal?.aborted === true) return;
      log.warn({ path, error: messageOf(error) }, "leftovers could not be removed");
      if (taskID !== "try") kept.tell(taskID, messageOf(error));
    });

  const retire = async (taskID: string, tip: string): Promise<Retired> => {
    const record = records.of(taskID);
    if (!existsSync(worktreeOf(taskID))) {
      if (kept.has(taskID)) await takeAway(taskID, record);
      return { removed: true };
    }
    if (record === undefined) return { removed: false, reason: "its origin is not recorded" };
    if (!existsSync(join(record.commonDir, "HEAD")))
      return { removed: false, reason: `its repository ${record.commonDir} is gone` };
    const reason = await secure(taskID, record, tip);
    if (reason !== undefined) return { removed: false, reason };
    await takeAway(taskID, record);
    return { removed: true };
  };

  /**
   * Removes all refs that it can; then rejects if one could not be removed. Resolves if the project itself is gone, and
   * the branches with it.
   */
  const removeAllRefs = async (taskID: string, record: WorktreeRecord): Promise<void> => {
    const { commonDir } = record;
    if (!existsSync(join(commonDir, "HEAD"))) return;
    const git = objectsOf(taskID, record);
    const left: string[] = [];
    const refs = await allRefsOf(git, taskID).catch((error: unknown) => {
      left.push(`its branches could not be listed: ${messageOf(error)}`);
      return refsOf(taskID);
    });
    await removeRefs({ commonDir, git }, refs, (ref, why) => void left.push(`${ref} could not be removed: ${why}`));
    if (left.length > 0) throw new Error(left.join("; ").slice(0, 1000));
  };

  /**
   * Removes the homes of the programs that worked for the Task, in its files and in forks that were removed earlier.
   */
  const removeHomes = async (taskID: string): Promise<void> => {
    const homes = dirname(deps.processes.homeOf(taskID));
    const names = existsSync(homes) ? readdirSync(homes) : [];
    for (const name of names) if (name === taskID || name.startsWith(`${taskID}-`)) await removeTree(join(homes, name));
  };

  /** Puts on record that something could not be removed, and throws the error again. */
  const telling =
    (taskID: string) =>
    (error: unknown): never => {
      kept.tell(taskID, messageOf(error));
      throw error;
    };

  return {
    /**
     * Ids with a worktree on disk, a removal mark, or something that could not be removed. Deletes what an interrupted
     * removal left.
     */
    async listWorktrees(signal?: AbortSignal): Promise<string[]> {
      if (!existsSync(home)) return [];
      const found = new Set(kept.all().map(({ key }) => key));
      for (const entry of readdirSync(home, { withFileTypes: true })) {
        const [taskID = "", kind] = entry.name.split(".");
        if (entry.isDirectory() && (entry.name.endsWith(gone) || taskID === "try"))
          await clear(taskID, join(home, entry.name), signal);
        else if ((entry.isDirectory() && kind === undefined) || entry.name.endsWith(removalMark)) found.add(taskID);
        else if (kind === "json" && !existsSync(worktreeOf(taskID)))
          for (const gitDir of [gitDirOf(taskID), records.of(taskID)?.gitDir])
            if (gitDir !== undefined) await clear(taskID, gitDir, signal);
      }
      return [...found].sort();
    },

    hasWorktree: (taskID: string): boolean => existsSync(worktreeOf(taskID)),

    isKnown: (taskID: string): boolean => records.of(taskID) !== undefined,

    /** `tip`: the commit that holds the Task's work. */
    async retire(taskID: string, tip: string): Promise<Retired> {
      const retired = await retire(taskID, tip).catch(
        (error: unknown): Retired => ({ removed: false, reason: messageOf(error) }),
      );
      if (!retired.removed) kept.tell(taskID, retired.reason);
      return retired;
    },

    /** The Task is about to be deleted: after a crash, a mark without a Task means that `remove` has to be called. */
    markForRemoval(taskID: string): void {
      mkdirSync(home, { recursive: true, mode: 0o700 });
      writeFileSync(join(home, `${taskID}${removalMark}`), "", { mode: 0o600 });
    },
    isMarkedForRemoval: (taskID: string): boolean => existsSync(join(home, `${taskID}${removalMark}`)),
    unmarkForRemoval: (taskID: string): void => rmSync(join(home, `${taskID}${removalMark}`), { force: true }),

    /** The new branch holds the attempt's result before anything is removed. */
    async makeWay(taskID: string, attempt: number): Promise<string | null> {
      const record = records.of(taskID);
      if (record === undefined || !existsSync(join(record.commonDir, "HEAD"))) return null;
      const git = objectsOf(taskID, record);
      const kept = attemptBranch(taskID, attempt);
      const tip = (await branchTip(git, branchOf(taskID))) ?? (record.base || undefined);
      const known = await branchTip(git, kept);
      const made = known !== undefined || (tip !== undefined && tip !== record.base);
      if (known === undefined && made && tip !== undefined)
        await setRef({ commonDir: record.commonDir, git }, branchRefOf(kept), tip);
      await deps.processes.closeSandboxes(taskID);
      if (tip !== undefined) {
        const retired = await retire(taskID, tip);
        // The next attempt then resets the files to its own base.
        if (!retired.removed) log.warn({ taskID, reason: retired.reason }, "the files of an earlier attempt were kept");
      }
      return made ? kept : null;
    },

    async removeUnused(key: string, which: "made" | "begun"): Promise<boolean> {
      const record = records.of(key);
      if (record === undefined || (which === "begun" && record.base !== "")) return false;
      await deps.processes.closeSandboxes(key);
      await takeAway(key, record);
      await removeAllRefs(key, record);
      records.forget(key);
      return true;
    },

    async remove(taskID: string): Promise<void> {
      const record = records.of(taskID);
      await deps.processes.closeSandboxes(taskID);
      await deps.processes.closeSandboxes(readerSandboxOwner(taskID));
      await takeAway(taskID, record).catch(telling(taskID));
      await removeHomes(taskID).catch(telling(taskID));
      // If a ref could not be removed, the record and the mark stay, so that a later call finds both.
      if (record !== undefined) await removeAllRefs(taskID, record).catch(telling(taskID));
      records.forget(taskID);
      rmSync(join(home, `${taskID}${removalMark}`), { force: true });
    },
  };
};

const fullFolder = (path: string): boolean => existsSync(path) && readdirSync(path).length > 0;

/** Makes sure that the branch still reaches `tip` once the worktree is gone. Returns why it does not. */
const keepBranch = async (
  { commonDir, base }: WorktreeRecord,
  git: Git,
  branch: string,
  tip: string,
): Promise<string | undefined> => {
  const at = await branchTip(git, branch);
  // Without changes there is no branch, and the base has its own ref.
  if (at === tip || (at === undefined && tip === base)) return undefined;
  if (at === undefined) {
    await setRef({ commonDir, git }, branchRefOf(branch), tip);
    return undefined;
  }
  const holds = await git.run(["merge-base", "--is-ancestor", tip, at], { ok: [0, 1] });
  return holds.exitCode === 0 ? undefined : `${branch} no longer contains its work`;
};
