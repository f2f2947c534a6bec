import { type Git, GitError } from "../git/git.ts";
import { idOf, splitNul } from "../git/output.ts";
import { diffOfCommits } from "./tree-change.ts";

/** Branches of a project other than the Task's own: reads, makes and moves them. */

/** The branches of one project, by their full names. */
export type Branches = {
  /** The commit of a branch; null: there is none. */
  headOf(ref: string): Promise<string | null>;
  /** Whether a branch has this name, or one below it, so that git would refuse to make it. */
  isTaken(ref: string): Promise<boolean>;
  /**
   * Makes a branch. Resolves to undefined, or to git's message if a branch of this name exists or it could not be made.
   */
  make(ref: string, commit: string): Promise<string | undefined>;
  /** Whether a branch has this commit. */
  contains(ref: string, commit: string): Promise<boolean>;
  /**
   * Whether a branch has everything that this commit brought: the commit itself, or the same changes in other commits.
   */
  hasAllOf(ref: string, commit: string): Promise<boolean>;
  /** The newest common ancestor of the first parents of these commits; null: there is none, or a commit is gone. */
  before(commits: readonly string[]): Promise<string | null>;
  /** Unified diff between two commits; null: one of them is gone. */
  diff(from: string, to: string): Promise<string | null>;
  /**
   * Moves a branch that nobody has checked out from one commit to a later one. false: the branch is at another commit
   * by now, or in use.
   */
  forward(ref: string, from: string, to: string): Promise<boolean>;
};

export const branchesOf = (git: Git): Branches => {
  const headOf = async (ref: string) =>
    (await git.run(["rev-parse", "--verify", "-q", `${ref}^{commit}`], { ok: [0, 1, 128] })).stdout
      .toString("latin1")
      .trim() || null;
  const contains = async (ref: string, commit: string): Promise<boolean> =>
    (await git.run(["merge-base", "--is-ancestor", commit, ref], { ok: [0, 1, 128] })).exitCode === 0;
  /** Resolves to git's message if it refuses. */
  const update = async (args: readonly string[]): Promise<string | undefined> => {
    try {
      await git.run(["update-ref", ...args], { undisturbed: true });
      return undefined;
    } catch (error) {
      if (error instanceof GitError && error.exitCode !== null) return error.stderr.trim() || error.message;
      throw error;
    }
  };
  /** null if git fails: a commit is gone. */
  const orNull = async <T>(work: () => Promise<T>): Promise<T | null> => {
    try {
      return await work();
    } catch (error) {
      if (error instanceof GitError && error.exitCode !== null) return null;
      throw error;
    }
  };
  return {
    headOf,
    before: (commits) =>
      orNull(async () => {
        const parents = commits.map((commit) => `${commit}^1`);
        return (await git.run(["merge-base", "--octopus", ...parents])).stdout.toString("latin1").trim() || null;
      }),
    diff: (from, to) => orNull(() => diffOfCommits(git, from, to)),
    async isTaken(ref) {
      return (await git.run(["for-each-ref", "--count=1", "--format=%(refname)", ref])).stdout.length > 0;
    },
    make: (ref, commit) => update(["-m", "sortie: branch", ref, commit, "0".repeat(commit.length)]),
    contains,
    async hasAllOf(ref, commit) {
      if (await contains(ref, commit)) return true;
      const args = ["merge-tree", "--write-tree", "--no-messages", ref, commit];
      const { stdout, exitCode } = await git.run(args, { ok: [0, 1, 128], timeoutMs: 10 * 60_000 });
      return exitCode === 0 && stdout.toString("latin1").trim() === (await idOf(git, `${ref}^{tree}`));
    },
    async forward(ref, from, to) {
      if ((await checkedOutAt(git, ref)) !== undefined) return false;
      return (await update(["-m", "sortie: forward", ref, to, from])) === undefined;
    },
  };
};

/**
 * The folder of the worktree that has a branch checked out; undefined: there is no such worktree, or its folder is
 * gone.
 */
export const checkedOutAt = async (git: Git, ref: string): Promise<string | undefined> => {
  const { stdout } = await git.run(["worktree", "list", "--porcelain", "-z"]);
  let place = "";
  let found: string | undefined;
  for (const line of [...splitNul(stdout), ""]) {
    if (line.startsWith("worktree ")) place = line.slice("worktree ".length);
    else if (line === `branch ${ref}`) found = place;
    else if (line.startsWith("prunable")) found = undefined;
    else if (line === "" && found !== undefined) return found;
  }
  return undefined;
};
