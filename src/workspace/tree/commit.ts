import { rmSync } from "node:fs";
import { join } from "node:path";
import { tempPrefix } from "../file/files.ts";
import { encodePath, osPath } from "../file/path.ts";
import { type Git, GitError, type GitOptions, type GitResult } from "../git/git.ts";
import { idOf } from "../git/output.ts";
import { looseCommit } from "../git/repository.ts";
import type { Commit } from "../object/commit.ts";
import { hiddenIn, showHidden } from "./hidden-flag.ts";
import { type Change, isIn, specialOf, statusOf } from "./status.ts";

/** Makes the tree on disk one commit on the base, whatever agents did with branches meanwhile. */

export type Base = { commit: string; tree: string };

export type CommitRequest = {
  /** git at the worktree's top. */
  git: Git;
  worktree: string;
  dirs: { gitDir: string; commonDir: string };
  branch: string;
  base: Base;
  message: string;
  /** Our last commit here; with it, one process detects that the tree is unchanged. */
  last: Commit | undefined;
  /** Folders that never enter a commit. */
  without?: readonly string[];
};

/** State of an agent's unfinished merge or rebase, which would change what our commit means. */
const unfinished = [
  "MERGE_HEAD",
  "MERGE_MSG",
  "MERGE_MODE",
  "AUTO_MERGE",
  "SQUASH_MSG",
  "CHERRY_PICK_HEAD",
  "REVERT_HEAD",
];

const unfinishedFolders = ["rebase-merge", "rebase-apply", "sequencer"];

/** undefined: the tree equals the base's. */
export const commitTree = async (request: CommitRequest): Promise<Commit | undefined> => {
  const { worktree, dirs, branch, base, message, last } = request;
  const git = retrying(request.git, dirs);
  for (const name of [...unfinished, ...unfinishedFolders])
    rmSync(join(dirs.gitDir, name), { recursive: true, force: true });

  await showHidden(git, await hiddenIn(worktree, join(dirs.gitDir, "index"), base.commit.length / 2));

  let status = await statusOf(git);
  const ours = status.oid === last?.commit && last?.parent === base.commit;
  if (status.head !== branch || (status.oid !== base.commit && !ours)) {
    if (status.head !== branch) await git.run(["symbolic-ref", "HEAD", `refs/heads/${branch}`]);
    await git.run(["update-ref", `refs/heads/${branch}`, base.commit]);
    status = await statusOf(git);
  }
  const { keep, omitted, unstage } = sort(worktree, status.changes, request.without ?? []);
  if (keep.length === 0 && unstage.length === 0)
    return status.oid === base.commit || last === undefined ? undefined : { ...last, omitted };

  // `commit -a` takes every tracked file as on disk; the paths it does not or must not take are handled one by one.
  const all = omitted.length === 0 && unstage.length === 0 && keep.every((change) => !change.untracked);
  if (unstage.length > 0) await git.run(["update-index", "-z", "--index-info"], { input: restored(unstage) });
  if (!all && keep.length > 0)
    await git.run(["update-index", "-z", "--add", "--remove", "--replace", "--stdin"], {
      input: Buffer.concat(keep.flatMap((change) => [encodePath(change.path), Buffer.of(0)])),
    });
  const amend = status.oid === base.commit ? [] : ["--amend", "--reset-author"];
  const commitArgs = ["-c", "core.abbrev=no", "commit", "--allow-empty", "--allow-empty-message", "--cleanup=verbatim"];
  commitArgs.push("--no-verify", "--no-post-rewrite", "--no-status", "-F", "-", ...amend, ...(all ? ["-a"] : []));
  const { stdout } = await git.run(commitArgs, { input: message });
  // "[branch <id>] subject", then " 2 files changed, 3 insertions(+), 1 deletion(-)"; LC_ALL is C.
  const [first = "", ...rest] = stdout.toString("utf8").split("\n");
  const commit = / ([0-9a-f]{40,64})\] /.exec(`${first} `)?.[1];
  if (commit === undefined) throw new GitError(`Expected git commit to name its commit, got "${first}"`, 0, "");
  const counted = (what: RegExp) => Number(what.exec(rest.join("\n"))?.[1] ?? 0);

  const tree = looseCommit(dirs.commonDir, commit)?.tree ?? (await idOf(git, `${commit}^{tree}`));
  if (tree === base.tree) {
    await git.run(["update-ref", `refs/heads/${branch}`, base.commit]);
    return undefined;
  }
  return {
    commit,
    tree,
    parent: base.commit,
    files: counted(/ (\d+) files? changed/),
    insertions: counted(/ (\d+) insertions?\(\+\)/),
    deletions: counted(/ (\d+) deletions?\(-\)/),
    omitted,
  };
};

/** Which changes enter the commit, which cannot, and which must leave the index again. */
const sort = (worktree: string, changes: readonly Change[], without: readonly string[]) => {
  const keep: Change[] = [];
  const unstage: Change[] = [];
  const omitted: Commit["omitted"] = [];
  for (const change of changes) {
    const folder = without.find((path) => isIn(path, change));
    if (folder !== undefined) {
      if (!omitted.some(({ path }) => path === folder)) omitted.push({ path: folder, reason: "a dependency folder" });
      if (change.staged) unstage.push(change);
      continue;
    }
    const name = change.path.slice(change.path.lastIndexOf("/") + 1);
    const reason = change.link
      ? change.headMode === "160000"
        ? "a submodule, whose commit we do not move"
        : "a nested Git repository"
      : change.untracked && change.path.endsWith("/")
        ? "a nested Git repository"
        : specialOf(`${worktree}/${change.path}`);
    if (change.untracked && name.startsWith(tempPrefix)) rmSync(osPath(`${worktree}/${change.path}`), { force: true });
    else if (reason === undefined) keep.push(change);
    else {
      omitted.push({ path: change.path.replace(/\/$/, ""), reason });
      if (change.staged) unstage.push(change);
    }
  }
  return { keep, unstage, omitted };
};

/** Index entries as in HEAD, in the form of `update-index --index-info`; mode 0 removes. */
const restored = (changes: readonly Change[]): Buffer =>
  Buffer.concat(
    changes.flatMap(({ headMode, headObject, path }) => {
      const mode = headMode === "000000" ? "0" : headMode;
      return [Buffer.from(`${mode} ${headObject}\t`), encodePath(path), Buffer.of(0)];
    }),
  );

/** Removes, once, a lock that a killed git left in the Task's own part of the repository, and tries again. */
const retrying = (git: Git, { gitDir, commonDir }: { gitDir: string; commonDir: string }): Git => ({
  root: git.root,
  async run(args: readonly string[], options?: GitOptions): Promise<GitResult> {
    try {
      return await git.run(args, options);
    } catch (error) {
      const lock = error instanceof GitError ? /'([^']*\.lock)': File exists/.exec(error.stderr)?.[1] : undefined;
      const mine = [`${gitDir}/`, `${commonDir}/refs/heads/sortie/`];
      if (lock === undefined || !mine.some((folder) => lock.startsWith(folder))) throw error;
      rmSync(lock, { force: true });
      return git.run(args, options);
    }
  },
});

/**
 * Restores tracked files to the commit and removes untracked ones; ignored files stay. One process when nothing
 * changed.
 */
export const resetTo = async (git: Git, commit: string, without: readonly string[] = []): Promise<void> => {
  const { oid, changes } = await statusOf(git);
  if (oid === commit && changes.length === 0) return;
  await git.run(["reset", "-q", "--hard", commit], { timeoutMs: 10 * 60_000 });
  // Forced twice, so that nested repositories are removed too.
  const except = without.flatMap((path) => ["-e", patternOf(path)]);
  if (oid !== commit || changes.some((change) => change.untracked))
    await git.run(["clean", "-q", "-d", "-f", "-f", ...except]);
};

/** An ignore pattern that matches exactly this path, from the top. */
export const patternOf = (path: string): string => `/${path.replace(/[\\*?[\]!# ]/g, "\\$&")}`;
