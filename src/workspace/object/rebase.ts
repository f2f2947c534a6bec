import { type Git, GitError } from "../git/git.ts";
import { idOf, splitNul } from "../git/output.ts";
import { changesOf } from "./change.ts";
import { type Commit, commitOf } from "./commit.ts";

/** A Task's one change on top of another commit, merged in the object store. */

export type MergeResult = { tree: string; conflicts: string[]; said: string[]; ours: string; theirs: string };

/**
 * `said`: what git says of conflicts that show in no file. In files the sides are named by the commits `ours` and
 * `theirs`.
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
  // Then, for each message: how many paths, the paths, its kind, its text.
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

export type RebaseRequest = {
  git: Git;
  commit: Commit;
  message: string;
  /** The branch's commit now. */
  onto: string;
  /** The commit that the base is a snapshot on; undefined where the base is the branch's own. */
  head: string | undefined;
};

/**
 * On the branch, without what the user had not committed when the Task began. A change that needs such lines is
 * `entangled` as long as the branch still lacks them: no other round would help.
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

/** Changes to what is uncommitted alone, such as an untracked file that the Task took away. */
const leftOf = async (git: Git, commit: Commit, head: string, onto: string, tree: string, since: Set<string>) => {
  const uncommitted = await pathsOf(git, head, commit.parent);
  const landing = await pathsOf(git, onto, tree);
  const changed = await pathsOf(git, commit.parent, commit.commit);
  return [...changed].filter((path) => uncommitted.has(path) && !landing.has(path) && !since.has(path)).sort();
};

const pathsOf = async (git: Git, from: string, to: string): Promise<Set<string>> =>
  new Set((await changesOf(git, from, to)).map(({ path }) => path));

/**
 * The two sides to merge, with the Task's base as their merge base. When the branch grew from that base it is by
 * itself. When it did not (it was rewritten, or the base is a snapshot) a common root of the base's tree is made for
 * both: an older common ancestor would bring back what the user took away.
 */
const sides = async (git: Git, onto: string, commit: Commit): Promise<[string, string]> => {
  const grew = await git.run(["merge-base", "--is-ancestor", commit.parent, onto], { ok: [0, 1] });
  if (grew.exitCode === 0) return [onto, commit.commit];
  const root = await commitOf(git, await idOf(git, `${commit.parent}^{tree}`), undefined, "base");
  const ours = await commitOf(git, await idOf(git, `${onto}^{tree}`), root, "project");
  return [ours, await commitOf(git, commit.tree, root, "task")];
};

/** `left`: changes to what is uncommitted alone. `entangled`: the change needs lines that the user has not committed. */
export type Rebased =
  | { ok: true; baseCommit: string; baseTree: string; commit: string; tree: string; left: string[] }
  | { ok: false; reason: "conflict" | "entangled"; paths: string[] };
