import { existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Log } from "../../log.ts";
import type { Processes } from "../../process/process.ts";
import type { SandboxPlace } from "../../process/sandbox/place.ts";
import { WorkspaceLost } from "../error.ts";
import { removeTree } from "../file/remove-tree.ts";
import { createGit, type CreateGitOptions, type Git, GitError } from "../git/git.ts";
import { defaultAuthor, defaultPath } from "../git/hardened.ts";
import type { Commit } from "../object/commit.ts";
import { baseRefOf, branchRefOf, setRef } from "../object/ref.ts";
import type { createWorktreeRecords, WorktreeRecord } from "../record.ts";
import { GitDied } from "../git/run.ts";
import { makeGitDir, removeLocks } from "../tree/git-dir.ts";
import type { TreeGit } from "../tree/tree-git.ts";
import { treeGitOf } from "./inside.ts";
import { isMountable, worktreeMounts } from "./mount.ts";

/**
 * Names and makes the worktrees of Tasks. Making one takes a folder, a Git directory beside it (`tree/git-dir.ts`), and
 * one `git read-tree` that fills the folder. Every step can be repeated after a kill.
 */

/** The folder with what is needed to complete or roll back a Task's landing: the user's own bytes, and merged ones. */
export const landingFolderIn = (home: string, taskID: string): string => join(home, `${taskID}.landing`);

export type WorktreeFolder = ReturnType<typeof createWorktreeFolder>;

export const createWorktreeFolder = (options: {
  home: string;
  git: CreateGitOptions;
  records: ReturnType<typeof createWorktreeRecords>;
  processes: Processes;
  log: Log;
}) => {
  const { home, records, processes, log } = options;
  const { author = defaultAuthor, path = defaultPath } = options.git;
  /** The last commit made in a worktree; with it, one process detects that the tree is unchanged. */
  const made = new Map<string, Commit>();
  const worktreeOf = (taskID: string) => join(home, taskID);
  const gitDirOf = (taskID: string) => join(home, `${taskID}.git`);

  /** A long time-out: large files, slow disks and many files are no failure. */
  const patient = { ...options.git, timeoutMs: 10 * 60_000 };
  const of = (taskID: string) => ({ ...patient, tracker: processes.track(taskID) });

  /** git in the project's own files. */
  const gitOf = (taskID: string, record: WorktreeRecord): Git =>
    createGit(record.toplevel, { ...of(taskID), toplevel: record.toplevel, gitDir: record.projectGitDir });

  /** An empty folder as the work tree of git on commits and blobs, so that git reads nobody's attributes. */
  const nothing = join(home, "..", "empty");

  /** git on the project's objects and refs, which sees no files. */
  const objectsOf = (taskID: string, { commonDir }: Pick<WorktreeRecord, "commonDir">): Git => {
    mkdirSync(nothing, { recursive: true, mode: 0o500 });
    return createGit(nothing, { ...of(taskID), toplevel: nothing, gitDir: commonDir });
  };

  const mountsOf = (taskID: string, record: WorktreeRecord): SandboxPlace =>
    worktreeMounts({ tree: worktreeOf(taskID), gitDir: record.gitDir, writable: true, record });

  /**
   * git in a worktree of the service's. `apart`: names a sandbox for callers other than the Task's run, which keeps its
   * own open.
   */
  const gitIn = (
    taskID: string,
    record: WorktreeRecord,
    more: { root?: string; place?: SandboxPlace; apart?: string | undefined } = {},
  ): TreeGit =>
    treeGitOf({
      processes,
      taskID,
      root: more.root ?? worktreeOf(taskID),
      tree: worktreeOf(taskID),
      gitDir: record.gitDir,
      place: more.place ?? mountsOf(taskID, record),
      apart: more.apart,
      excluded: record.given !== undefined,
      path,
      author,
      onSpawn: options.git.onSpawn,
    });

  /**
   * Records the commit that the files are based on, and holds it by a ref in the project, whatever its user does with
   * branches.
   */
  const recordBase = async (taskID: string, base: string, how?: { later: boolean }): Promise<void> => {
    const record = records.of(taskID);
    if (record === undefined) return;
    if (base !== "")
      await setRef({ commonDir: record.commonDir, git: objectsOf(taskID, record) }, baseRefOf(taskID), base);
    records.keep(taskID, { ...record, base }, how);
  };

  /**
   * Holds, by a ref, the commit that a move to another base leaves behind, until the Task is removed: the log may still
   * name it.
   */
  const keep = async (taskID: string, commit: string): Promise<void> => {
    made.delete(taskID);
    const record = records.of(taskID);
    if (record !== undefined)
      await setRef(
        { commonDir: record.commonDir, git: objectsOf(taskID, record) },
        baseRefOf(`${taskID}.before`),
        commit,
      );
  };

  /**
   * Moves the files to another base. The record has the base "" meanwhile, so that a crash in between is detected; the
   * commit `from` is kept for that case. `later`: the caller writes the record afterwards.
   */
  const moveBase = async <T>(
    taskID: string,
    base: string,
    move: () => Promise<T>,
    { from, later = false }: { from?: string; later?: boolean } = {},
  ): Promise<T> => {
    if (from !== undefined) await keep(taskID, from);
    made.delete(taskID);
    await recordBase(taskID, "");
    const moved = await move();
    await recordBase(taskID, base, { later });
    return moved;
  };

  const point = async (taskID: string): Promise<void> => {
    // An agent may have put a repository of its own, a FIFO or a link there, so whatever is there is removed, not
    // opened.
    const pointer = join(worktreeOf(taskID), ".git");
    await removeTree(pointer);
    writeFileSync(pointer, `gitdir: ${gitDirOf(taskID)}\n`, { flag: "wx" });
  };

  /**
   * git outside any sandbox, for a tree in which nobody works: it fills an empty folder, or reads none of the tree's
   * files.
   */
  const gitAround = (taskID: string, tree: string, gitDir: string): Git =>
    createGit(tree, { ...of(taskID), toplevel: tree, gitDir });

  /** Reads a commit into such a tree; if git dies, once more over what it left. */
  const readTree = async (taskID: string, tree: string, gitDir: string, args: readonly string[]): Promise<void> => {
    const read = () => gitAround(taskID, tree, gitDir).run(["read-tree", ...args]);
    await read().catch(async (error: unknown) => {
      if (!(error instanceof GitDied)) throw error;
      await removeLocks(gitDir);
      return await read();
    });
  };

  /**
   * Creates the tree's Git directory again, after an agent broke it or where an earlier version linked it to the
   * project. The files are the work and stay unchanged.
   */
  const repair = async (taskID: string, record: WorktreeRecord, commit: string): Promise<WorktreeRecord> => {
    made.delete(taskID);
    await processes.closeSandboxes(taskID);
    const own = { ...record, gitDir: gitDirOf(taskID) };
    if (record.gitDir !== own.gitDir) await removeTree(record.gitDir);
    await makeGitDir({ gitDir: own.gitDir, commonDir: record.commonDir, head: commit, author });
    await point(taskID);
    await readTree(taskID, worktreeOf(taskID), own.gitDir, [commit]);
    records.keep(taskID, own);
    if (own.base !== undefined) await recordBase(taskID, own.base);
    return records.of(taskID) ?? own;
  };

  /** Whether the tree has what git needs of it; an agent may have removed that. */
  const isWhole = (taskID: string, { gitDir }: WorktreeRecord): boolean =>
    gitDir === gitDirOf(taskID) &&
    existsSync(join(gitDir, "HEAD")) &&
    isMountable({ tree: worktreeOf(taskID), gitDir });

  /** Replaces the worktree by a new one with the files of the commit. */
  const fill = async (taskID: string, record: WorktreeRecord, commit: string): Promise<void> => {
    const tree = worktreeOf(taskID);
    if (existsSync(tree)) {
      await removeTree(`${tree}.gone`);
      renameSync(tree, `${tree}.gone`);
      await removeTree(`${tree}.gone`);
    }
    mkdirSync(tree, { recursive: true, mode: 0o700 });
    await makeGitDir({ gitDir: record.gitDir, commonDir: record.commonDir, head: commit, author });
    await point(taskID);
    await readTree(taskID, tree, record.gitDir, ["--reset", "-u", commit]);
  };

  /** Resets the files that an earlier run left to the commit; ignored ones stay. false: git cannot work there. */
  const refill = async (taskID: string, record: WorktreeRecord, commit: string): Promise<boolean> => {
    if (!isWhole(taskID, record)) return false;
    const git = gitIn(taskID, record, { apart: "refill" });
    try {
      await git.run(["reset", "-q", "--hard", commit], { timeoutMs: 10 * 60_000 });
      await git.run(["clean", "-q", "-d", "-f", "-f"], { timeoutMs: 10 * 60_000 });
      return true;
    } catch (error) {
      if (!(error instanceof GitError)) throw error;
      log.warn({ taskID, error: error.message }, "the worktree of an earlier run is recreated");
      return false;
    }
  };

  /**
   * Makes the tree with the files of the commit, also where an earlier attempt or run left one. `later`: see
   * `moveBase`.
   */
  const checkOutBase = (
    taskID: string,
    record: WorktreeRecord,
    commit: string,
    base: string,
    how?: { later: boolean },
  ): Promise<void> => {
    const move = async () => {
      await processes.closeSandboxes(taskID);
      // Held by refs before any file is made: a snapshot is on no branch.
      const refs = { commonDir: record.commonDir, git: objectsOf(taskID, record) };
      await setRef(refs, baseRefOf(taskID), base);
      await setRef(refs, branchRefOf(branchOf(taskID)), commit);
      if (!(await refill(taskID, record, commit))) await fill(taskID, record, commit);
    };
    return moveBase(taskID, base, move, how);
  };

  return {
    made,
    worktreeOf,
    gitDirOf,
    home,
    landingFolder: (taskID: string) => landingFolderIn(home, taskID),
    gitIn,
    gitOf,
    objectsOf,
    readTree,
    mountsOf,
    keep,
    recordBase,
    moveBase,
    isWhole,
    repair,
    checkOutBase,
    author,
    path,
    /**
     * Whether an earlier version linked the worktree to the project's repository; logs that its Git directory is
     * recreated.
     */
    isLinked(taskID: string, record: WorktreeRecord): boolean {
      const linked = record.gitDir !== gitDirOf(taskID);
      if (linked) log.info({ taskID }, "the Git directory of the worktree is recreated, outside of the project");
      return linked;
    },
  };
};

export const branchOf = (taskID: string) => `sortie/${taskID}`;

/** Throws WorkspaceLost where the user removed the repository: none may be created in its place. */
export const expectRepository = ({ toplevel, commonDir }: WorktreeRecord): void => {
  if (!existsSync(join(commonDir, "HEAD")))
    throw new WorkspaceLost(`Expected the Git repository of ${toplevel}, got nothing at ${commonDir}.`);
};
