import { diffOf } from "./tree/diff.ts";
import { createGit, type CreateGitOptions } from "./git/git.ts";
import { repositoryOf } from "./git/repository.ts";
import type { Prepared, Project, Workspace } from "./workspace.ts";

/** A workspace in the project's own files, where nothing is committed, reset or landed. */

export const inPlace = (
  prepared: Prepared,
  gitOptions: CreateGitOptions,
  commands: Pick<Workspace, "files" | "run" | "runProgram" | "startInteractive" | "prepareSandbox">,
): Workspace => {
  const found = repositoryOf(prepared.root);
  // The Git directory that was found, whatever a command leaves in the place of `.git`.
  const git =
    found === undefined
      ? undefined
      : createGit(prepared.root, { ...gitOptions, toplevel: found.toplevel, gitDir: found.gitDir });
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
    reset: refuse("reset"),
    stamp: () => "",
    clearDependencies: refuse("clear"),
    diff: async (commit, from) => {
      if (git === undefined || found === undefined || prepared.baseCommit === null) return "";
      return diffOf(git, found.gitDir, from ?? prepared.baseCommit, commit);
    },
  };
};

export const directoryOnly = (project: Project, tree: string | null): Prepared => ({
  kind: "directory",
  root: project.directory,
  worktree: null,
  branch: null,
  baseCommit: project.git?.head ?? null,
  baseTree: tree,
  targetRef: null,
});
