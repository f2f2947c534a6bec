import { hasSnapshot, type TaskState } from "../domain/state/task.ts";
import type { Store } from "../store/store.ts";
import { splitNul } from "../workspace/git/output.ts";
import type { Git } from "../workspace/git/git.ts";

/**
 * Paths that Git did not track in the user's directory when the Task began and that the Task has not changed: they are
 * in its snapshot but are not its work. Relative to the project's folder. `commit`: the Task's tree; undefined: compare
 * with the worktree that `git` works in.
 */
export const untrackedOf = async (
  state: TaskState,
  store: Pick<Store, "blobs">,
  git: Git,
  commit: string | undefined,
): Promise<Set<string>> => {
  const { workspace } = state;
  if (workspace?.snapshot === undefined || workspace.baseCommit === null || workspace.worktree === null)
    return new Set();
  const { untracked } = workspace.snapshot;
  const prefix = workspace.root.slice(workspace.worktree.length + 1);
  const folder = prefix === "" ? "" : `${prefix}/`;
  const all = Array.isArray(untracked) ? untracked : await load(store, untracked.blob.sha256);
  const paths = all.filter((path) => path.startsWith(folder));
  if (paths.length === 0 || !hasSnapshot(state)) return new Set(paths.map((path) => path.slice(folder.length)));
  const args = ["-z", "--name-only", "--no-renames", workspace.baseCommit];
  const { stdout } =
    commit === undefined ? await git.run(["diff-index", ...args]) : await git.run(["diff-tree", "-r", ...args, commit]);
  const changed = new Set(splitNul(stdout));
  return new Set(paths.filter((path) => !changed.has(path)).map((path) => path.slice(folder.length)));
};

const load = async (store: Pick<Store, "blobs">, sha256: string): Promise<string[]> => {
  const bytes = await store.blobs.get(sha256);
  return bytes === undefined ? [] : (JSON.parse(bytes.toString("utf8")) as string[]);
};
