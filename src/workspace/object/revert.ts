import { type Git, GitError } from "../git/git.ts";
import { idOf } from "../git/output.ts";
import { commitOf } from "./commit.ts";
import { mergeOnto } from "./rebase.ts";

/** Takes commits back as `git revert` does, in the object store alone. */

/** Not ok: why nothing can be taken back; `paths` where later changes are in the way. */
export type Reverted = { ok: true; tree: string } | { ok: false; reason: string; paths: string[] };

const message = "revert";

/** The tree of `onto` without what these commits changed, newest first. */
export const revertOnto = async (git: Git, onto: string, commits: readonly string[]): Promise<Reverted> => {
  const before = await idOf(git, `${onto}^{tree}`);
  let at = onto;
  let tree = before;
  for (const commit of commits) {
    const found = await parentTreeOf(git, commit);
    if (found === undefined)
      return { ok: false, reason: `the commit ${commit} is no longer in the repository`, paths: [] };
    const back = await commitOf(git, found, commit, message);
    const change = { commit: back, tree: found, parent: commit, files: 0, insertions: 0, deletions: 0, omitted: [] };
    const merged = await mergeOnto(git, change, at);
    if (merged.conflicts.length > 0)
      return { ok: false, reason: "later changes touch the same lines", paths: merged.conflicts };
    tree = merged.tree;
    at = await commitOf(git, tree, at, message);
  }
  if (tree === before) return { ok: false, reason: "the branch does not (or no longer) contain it", paths: [] };
  return { ok: true, tree };
};

/** The tree of a commit's first parent; undefined: there is no such commit, or it has no parent. */
const parentTreeOf = async (git: Git, commit: string): Promise<string | undefined> => {
  try {
    return await idOf(git, `${commit}^1^{tree}`);
  } catch (error) {
    if (error instanceof GitError) return undefined;
    throw error;
  }
};
