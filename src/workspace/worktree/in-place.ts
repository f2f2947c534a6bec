import { mkdirSync } from "node:fs";
import { lstat } from "node:fs/promises";
import { join } from "node:path";
import type { Processes } from "../../process/process.ts";
import { createGit, type CreateGitOptions } from "../git/git.ts";
import { defaultAuthor, defaultPath } from "../git/hardened.ts";
import { GitError } from "../git/run.ts";
import { type Repository, repositoryOf } from "../git/repository.ts";
import { diffOfCommits } from "../object/tree-change.ts";
import { diffOfTree } from "../tree/diff.ts";
import { generatedIn } from "../object/generated.ts";
import { treeOnDisk } from "../tree/disk-tree.ts";
import { createTreeGit, type TreeGit } from "../tree/tree-git.ts";
import { readerSandboxOwner, runInside } from "./inside.ts";
import { directoryMounts, scratchAt } from "./mount.ts";
import type { Prepared, Project, Workspace } from "../workspace.ts";

/** A workspace in the project's own files, where nothing is committed, reset or landed. */

export type InPlaceRequest = {
  taskID: string;
  prepared: Prepared;
  processes: Processes;
  /** A folder of the Task's for git's temporary files. */
  scratch: string;
  git: CreateGitOptions;
};

/** The folder for temporary files of git where a Task works in place; `home`: the folder of worktrees. */
export const scratchOf = (home: string, taskID: string): string => join(home, "..", "scratch", taskID);

export const inPlace = (
  request: InPlaceRequest,
  commands: Pick<Workspace, "files" | "run" | "runProgram" | "startInteractive" | "prepareSandbox">,
): Workspace => {
  const { prepared } = request;
  const found = repositoryOf(prepared.root);
  const git = found === undefined ? undefined : gitAt(request, found);
  const refuse = (what: string) => () =>
    Promise.reject(new Error(`Expected a worktree to ${what}, got ${prepared.root}, where the Task works in place.`));
  return {
    prepared,
    root: prepared.root,
    rootInSandbox: prepared.root,
    git,
    dependencies: [],
    ...commands,
    commit: refuse("commit"),
    keep: refuse("commit"),
    tree: async () =>
      git !== undefined && hadRepositoryAtStart(prepared) && (await isSmall(git, prepared.root))
        ? treeOnDisk(git)
        : null,
    reset: refuse("reset"),
    stamp: () => "",
    dependencyStamp: () => "",
    clearDependencies: refuse("clear"),
    diff: async (commit, from) => {
      if (git === undefined || prepared.baseCommit === null) return "";
      return commit === null
        ? diffOfTree(git, from ?? prepared.baseCommit)
        : diffOfCommits(git, from ?? prepared.baseCommit, commit);
    },
    about: () => Promise.resolve(undefined),
    texts: () => Promise.resolve(new Map()),
    generated: async (paths) =>
      git === undefined || prepared.baseCommit === null ? () => false : generatedIn(git, prepared.baseCommit, paths),
  };
};

/**
 * Most files, and most bytes of theirs, that are hashed to identify a tree: people may keep any amount in their
 * directories.
 */
const mostFiles = 5000;
const mostBytes = 64 * 1024 * 1024;

/**
 * Whether the tree on disk can be identified cheaply: the files that are new, or changed since the index, are few and
 * small.
 */
const isSmall = async (git: TreeGit, root: string): Promise<boolean> => {
  const args = ["ls-files", "-z", "--others", "--modified", "--exclude-standard", "--", "."];
  const listed = await git.run(args).catch((error: unknown) => {
    if (error instanceof GitError) return undefined;
    throw error;
  });
  if (listed === undefined) return false;
  const paths = new Set(listed.stdout.toString("utf8").split("\0"));
  if (paths.size > mostFiles) return false;
  let bytes = 0;
  for (const path of paths) {
    const found = path === "" ? undefined : await lstat(join(root, path)).catch(() => undefined);
    bytes += found?.size ?? 0;
    if (bytes > mostBytes) return false;
  }
  return true;
};

/**
 * git in the user's files. In tier 1 it has sandboxes of its own, in which no command of an agent runs; only calls that
 * change the user's Git directory get the one that may write it.
 */
const gitAt = ({ taskID, prepared, processes, scratch, git }: InPlaceRequest, found: Repository): TreeGit => {
  const { root } = prepared;
  const { toplevel, gitDir } = found;
  const confined = processes.tier === 1;
  const placeOf = (writes: boolean) => {
    mkdirSync(scratch, { recursive: true, mode: 0o700 });
    return {
      taskID: readerSandboxOwner(taskID),
      root,
      place: directoryMounts({
        directory: root,
        known: hadRepositoryAtStart(prepared),
        scratch,
        writable: confined && writes,
      }),
    };
  };
  return createTreeGit({
    root,
    toplevel,
    // The Git directory that was found here, whatever a command puts in the place of `.git` later.
    gitDir,
    objects: join(found.commonDir, "objects"),
    scratch: {
      get own() {
        mkdirSync(scratch, { recursive: true, mode: 0o700 });
        return scratch;
      },
      seen: confined ? scratchAt : scratch,
    },
    excludes: undefined,
    refresh: false,
    // In a sandbox, git is shown settings that name no programs.
    ...(confined ? {} : { keys: createGit(root, { ...git, toplevel, gitDir }).blanked }),
    run: (command, writes) => {
      const apart = confined ? { apart: writes ? "git-write" : "git" } : {};
      return runInside(processes, placeOf(writes), { ...command, ...apart, unheld: true, own: true });
    },
    path: git.path ?? defaultPath,
    author: git.author ?? defaultAuthor,
    ...(git.onSpawn === undefined ? {} : { onSpawn: git.onSpawn }),
  });
};

/** Whether the directory had a repository, with a commit, when the Task began. */
export const hadRepositoryAtStart = ({ baseCommit }: Prepared): boolean => baseCommit !== null;

export const directoryOnly = (project: Project, tree: string | null): Prepared => ({
  kind: "directory",
  root: project.directory,
  worktree: null,
  branch: null,
  baseCommit: project.git?.head ?? null,
  baseTree: tree,
  targetRef: null,
});
