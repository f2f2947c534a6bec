import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Log } from "../../log.ts";
import { createGit, type CreateGitOptions, type Git } from "../git/git.ts";
import type { createWorktreeRecords, WorktreeRecord } from "../record.ts";
import { register } from "./register.ts";
import type { Commit } from "../object/commit.ts";

/**
 * Where the worktrees of Tasks are, and how one is created: by hand, in git's documented layout
 * (gitrepository-layout(5), "worktrees"), then checked out by one `git reset`. That takes one process instead of the
 * five of `git worktree add`, and every step can be repeated after a kill.
 */

export type WorktreeFolder = ReturnType<typeof createWorktreeFolder>;

export const createWorktreeFolder = (options: {
  home: string;
  git: CreateGitOptions;
  records: ReturnType<typeof createWorktreeRecords>;
  log: Log;
}) => {
  const { home, records, log } = options;
  /** The last commit made in a worktree; with it, one process detects that the tree is unchanged. */
  const made = new Map<string, Commit>();
  const worktreeOf = (taskID: string) => join(home, taskID);

  /** A long time-out: large files, slow disks and many files are no failure. */
  const patient = { ...options.git, timeoutMs: 10 * 60_000 };

  /** git in a worktree of ours. The dependency folders stay ignored even when the project's ignore patterns change. */
  const gitIn = (root: string, worktree: string, record: WorktreeRecord): Git =>
    createGit(root, {
      ...patient,
      toplevel: worktree,
      gitDir: record.gitDir,
      excludes: record.given === undefined ? undefined : `${worktree}.exclude`,
    });

  /** git in the project's own files. */
  const gitOf = (record: WorktreeRecord): Git =>
    createGit(record.toplevel, { ...patient, toplevel: record.toplevel, gitDir: record.projectGitDir });

  const recordBase = (taskID: string, base: string): void => {
    const record = records.of(taskID);
    if (record !== undefined) records.keep(taskID, { ...record, base });
  };

  /** Moves the files to another base. The record has the base "" meanwhile, so that a crash in between is detected. */
  const moveBase = async <T>(taskID: string, base: string, move: () => Promise<T>): Promise<T> => {
    made.delete(taskID);
    recordBase(taskID, "");
    const moved = await move();
    recordBase(taskID, base);
    return moved;
  };

  /** Creates the worktree's git metadata again after an agent broke it. The files are the work and stay unchanged. */
  const repair = async (taskID: string, record: WorktreeRecord, commit: string): Promise<void> => {
    log.warn({ taskID }, "what git keeps of the worktree was broken; made again");
    made.delete(taskID);
    register(worktreeOf(taskID), record, branchOf(taskID));
    rmSync(join(record.gitDir, "index"), { force: true });
    await gitIn(worktreeOf(taskID), worktreeOf(taskID), record).run(["reset", "-q", "--mixed", commit]);
  };

  /** Registers the worktree and checks out the commit. Completes what an earlier attempt left. */
  const checkOutBase = (taskID: string, record: WorktreeRecord, commit: string, base: string): Promise<void> =>
    moveBase(taskID, base, async () => {
      const worktree = worktreeOf(taskID);
      const again = existsSync(worktree);
      if (hasReftable(record)) return addByGit(taskID, record, commit);
      mkdirSync(worktree, { recursive: true, mode: 0o700 });
      register(worktreeOf(taskID), record, branchOf(taskID));
      const git = gitIn(worktree, worktree, record);
      await git.run(["reset", "-q", "--hard", commit]);
      if (again) await git.run(["clean", "-q", "-d", "-f", "-f"]);
    });

  /** With the reftable backend only git can register a worktree. */
  const addByGit = async (taskID: string, record: WorktreeRecord, commit: string): Promise<void> => {
    rmSync(worktreeOf(taskID), { recursive: true, force: true });
    rmSync(record.gitDir, { recursive: true, force: true });
    const add = ["worktree", "add", "-q", "--force", "-B", branchOf(taskID), worktreeOf(taskID), commit];
    await gitOf(record).run(add);
  };

  return {
    made,
    worktreeOf,
    /** What is needed to complete or roll back this Task's landing: the user's own bytes, and merged ones. */
    landingFolder: (taskID: string) => join(home, `${taskID}.landing`),
    gitIn,
    gitOf,
    recordBase,
    moveBase,
    repair,
    checkOutBase,
  };
};

export const branchOf = (taskID: string) => `sortie/${taskID}`;

export const hasReftable = ({ commonDir }: WorktreeRecord): boolean => existsSync(join(commonDir, "reftable"));
