import { type Git, GitError } from "../git/git.ts";
import { idOf, splitNul } from "../git/output.ts";
import { changesOf } from "./tree-change.ts";
import { type Commit, commitOf } from "./commit.ts";

/** Rebases a Task's one change onto another commit, in the object store alone. */

export type MergeResult = { tree: string; conflicts: string[]; said: string[]; ours: string; theirs: string };

/**
 * Merges the change into another commit. `said`: git's messages about conflicts that show in no file. The conflict
 * markers name the sides by the commits `ours` and `theirs`.
 */
export const mergeOnto = async (git: Git, commit: Commit, onto: string): Promise<MergeResult> => {
  const [ours, theirs] = await sides(git, onto, commit);
  const args = ["-c", "merge.conflictStyle=diff3", "merge-tree", "--write-tree", "-z", "--name-only", ours, theirs];
  const { stdout, exitCode } = await git.run(args, { ok: [0, 1], timeoutMs: 10 * 60_000 });
  const [tree = "", ...parts] = splitNul(stdout);
  if (exitCode === 0) return { tree, conflicts: [], said: [], ours, theirs };
  const end = parts.indexOf("");
  const conflicts = [...new Set(parts.slice(0, end === -1 ? undefined : end))].sort();
  if (conflicts.length === 0) throw new GitError(`git merge-tree named no path of its conflicts`, exitCode, "");
  // Each message is: the number of paths, the paths, its kind, its text.
  const said: string[] = [];
  const messages = end === -1 ? [] : parts.slice(end + 1);
  for (let at = 0; at < messages.length; ) {
    const count = Number(messages[at]);
    const kind = messages[at + count + 1] ?? "";
    const text = messages[at + count + 2] ?? "";
    if (kind.startsWith("CONFLICT") && kind !== "CONFLICT (contents)")
      said.push(text.trim().replaceAll(ours, "the project").replaceAll(theirs, "your change"));
    at += Number.isInteger(count) ? count + 3 : messages.length;
  }
  return { tree, conflicts, said, ours, theirs };
};

/**
 * The change that a commit makes since the newest ancestor that it shares with `base`. Throws GitError if there is
 * none.
 */
export const changeSinceMergeBase = async (git: Git, base: string, commit: string): Promise<Commit> => {
  const found = await git.run(["merge-base", base, commit], { ok: [0, 1] });
  const parent = found.stdout.toString("latin1").trim().split("\n")[0] ?? "";
  if (parent === "") throw new GitError(`Expected commits of one history, got ${base} and ${commit}`, 1, "");
  const tree = await idOf(git, `${commit}^{tree}`);
  return { commit, tree, parent, files: 0, insertions: 0, deletions: 0, omitted: [] };
};

export type RebaseRequest = {
  git: Git;
  commit: Commit;
  message: string;
  /** The branch's commit now. */
  onto: string;
  /** The commit that the base is a snapshot of; undefined where the base is the branch's own commit. */
  head: string | undefined;
};

/**
 * Moves the change onto the branch, without the changes that the user had not committed when the Task began. A change
 * that needs such lines is `entangled` until the branch has them: another round would not help.
 */
export const rebaseOnto = async ({ git, commit, message, onto, head }: RebaseRequest): Promise<Rebased> => {
  const baseTree = await idOf(git, `${onto}^{tree}`);
  const merged = await mergeOnto(git, commit, onto);
  const since = head === undefined || head === onto ? new Set<string>() : await pathsOf(git, head, onto);
  if (merged.conflicts.length > 0) {
    const entangled = head === undefined ? [] : merged.conflicts.filter((path) => !since.has(path));
    if (entangled.length > 0) return { ok: false, reason: "entangled", paths: entangled };
    return { ok: false, reason: "conflict", paths: merged.conflicts };
  }
  const left = head === undefined ? [] : await leftOf(git, commit, head, onto, merged.tree, since);
  const same = merged.tree === baseTree;
  if (same && left.length > 0) return { ok: false, reason: "entangled", paths: left };
  const made = same ? onto : await commitOf(git, merged.tree, onto, message);
  return { ok: true, baseCommit: onto, baseTree, commit: made, tree: merged.tree, left };
};

/** Changes that touch uncommitted files only, such as deleting an untracked file. */
const leftOf = async (git: Git, commit: Commit, head: string, onto: string, tree: string, since: Set<string>) => {
  const uncommitted = await pathsOf(git, head, commit.parent);
  const landing = await pathsOf(git, onto, tree);
  const changed = await pathsOf(git, commit.parent, commit.commit);
  return [...changed].filter((path) => uncommitted.has(path) && !landing.has(path) && !since.has(path)).sort();
};

const pathsOf = async (git: Git, from: string, to: string): Promise<Set<string>> =>
  new Set((await changesOf(git, from, to)).map(({ path }) => path));

/**
 * The two sides to merge, with the Task's base as their merge base. A branch that grew from the base is used directly.
 * Otherwise (it was rewritten, or the base is a snapshot) both sides get a common root with the base's tree: an older
 * common ancestor would bring back what the user removed.
 */
const sides = async (git: Git, onto: string, commit: Commit): Promise<[string, string]> => {
  const grew = await git.run(["merge-base", "--is-ancestor", commit.parent, onto], { ok: [0, 1] });
  if (grew.exitCode === 0) return [onto, commit.commit];
  const root = await commitOf(git, await idOf(git, `${commit.parent}^{tree}`), undefined, "base");
  const ours = await commitOf(git, await idOf(git, `${onto}^{tree}`), root, "project");
  return [ours, await commitOf(git, commit.tree, root, "task")];
};

/**
 * `left`: paths of changes to uncommitted files only. `entangled`: the change needs lines that the user has not
 * committed.
 */
export type Rebased =
  | { ok: true; baseCommit: string; baseTree: string; commit: string; tree: string; left: string[] }
  | { ok: false; reason: "conflict" | "entangled"; paths: string[] };
