import { idOf, splitNul } from "./commit.ts";
import type { Git } from "./git.ts";
import type { Commit, Rebased, Workspace } from "./workspace.ts";

/** The Task's one change on top of what the branch has become, merged in the object store; the worktree follows. */
export const rebaseOnto = async (request: {
  git: Git;
  workspace: Workspace;
  commit: Commit;
  message: string;
}): Promise<Rebased> => {
  const { git, workspace, commit, message } = request;
  const ref = workspace.prepared.targetRef;
  if (ref === null) throw new Error("Expected a branch to rebase onto, got a Task whose result stays on its own.");
  const [head = "", baseTree = ""] = (await git.run(["rev-parse", ref, `${ref}^{tree}`])).stdout.toString().split("\n");

  const [ours, theirs] = await sides(git, head, commit);
  const merge = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs];
  const merged = await git.run(merge, { ok: [0, 1] });
  const [tree = "", ...paths] = splitNul(merged.stdout);
  if (merged.exitCode === 1) return { ok: false, paths: [...new Set(paths)].sort() };

  const same = tree === baseTree;
  const made = same ? head : await commitOf(git, tree, head, message);
  await git.run(["reset", "-q", "--hard", made], { timeoutMs: 10 * 60_000 });
  return { ok: true, baseCommit: head, baseTree, commit: made, tree };
};

/**
 * The two sides to merge, with the Task's base as their merge base. When the branch grew from that base it is by
 * itself. When it was rewritten (amended, reset) a common root of the base's tree is made for both: an older common
 * ancestor would bring back what the user took away.
 */
const sides = async (git: Git, head: string, commit: Commit): Promise<[string, string]> => {
  const grew = await git.run(["merge-base", "--is-ancestor", commit.parent, head], { ok: [0, 1] });
  if (grew.exitCode === 0) return [head, commit.commit];
  const root = await commitOf(git, await idOf(git, `${commit.parent}^{tree}`), undefined, "base");
  const ours = await commitOf(git, await idOf(git, `${head}^{tree}`), root, "branch");
  return [ours, await commitOf(git, commit.tree, root, "task")];
};

const commitOf = async (git: Git, tree: string, parent: string | undefined, message: string): Promise<string> => {
  const args = ["commit-tree", tree, ...(parent === undefined ? [] : ["-p", parent]), "-F", "-"];
  return (await git.run(args, { input: message })).stdout.toString("latin1").trim();
};
