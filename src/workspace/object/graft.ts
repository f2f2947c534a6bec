import { removeTree } from "../file/remove-tree.ts";
import { encodePath } from "../file/path.ts";
import type { Git } from "../git/git.ts";
import { splitNul } from "../git/output.ts";
import { checkedOut } from "./blob.ts";
import { type Commit, commitOf } from "./commit.ts";
import type { Side } from "./tree-change.ts";

/**
 * Makes commits of the service's own, in the object store alone: no agent had a hand in what they change below
 * `.sortie`.
 */

/** `to` null: the path is removed. */
export type Graft = { path: string; to: Side };

/** `index`: the path of a temporary index, which is removed. */
export type GraftPlace = { git: Git; index: string };

/** The id of a tree in which the grafts replace the entries at their paths. */
export const treeWith = async ({ git, index }: GraftPlace, tree: string, grafts: readonly Graft[]): Promise<string> => {
  if (grafts.length === 0) return tree;
  const env = { GIT_INDEX_FILE: index };
  const nothing = "0".repeat(tree.length);
  const input = Buffer.concat(
    grafts.flatMap(({ path, to }) => [
      Buffer.from(`${to?.mode ?? "0"} ${to?.object ?? nothing}\t`),
      encodePath(path),
      Buffer.of(0),
    ]),
  );
  try {
    await git.run(["read-tree", tree], { env });
    await git.run(["update-index", "-z", "--index-info"], { env, input });
    return (await git.run(["write-tree"], { env })).stdout.toString("latin1").trim();
  } finally {
    await removeTree(index);
    await removeTree(`${index}.lock`);
  }
};

/** The grafts that replace the content of a folder by these files. */
export const filesBelow = async (
  git: Git,
  tree: string,
  folder: string,
  files: readonly { path: string; bytes: Buffer }[],
): Promise<Graft[]> => {
  const { stdout } = await git.run(["ls-tree", "-r", "-z", "--name-only", "--full-tree", tree, "--", folder]);
  const grafts = new Map<string, Graft>(splitNul(stdout).map((path) => [path, { path, to: null }]));
  for (const { path, bytes } of files) {
    const at = `${folder}/${path}`;
    grafts.set(at, { path: at, to: { mode: "100644", object: await blobFor(git, bytes) } });
  }
  return [...grafts.values()];
};

/**
 * Whether git ignores none of these files in a folder, and checks all of them out byte for byte. `git`: in the
 * project's own files.
 */
export const keepsFiles = async (
  git: Git,
  folder: string,
  files: readonly { path: string; bytes: Buffer }[],
): Promise<boolean> => {
  const input = Buffer.concat(files.flatMap(({ path }) => [encodePath(`./${folder}/${path}`), Buffer.of(0)]));
  // `check-ignore` takes every path literally, but fails where this is set. `./` in front, because a leading colon
  // would be magic.
  const env = { GIT_LITERAL_PATHSPECS: "0" };
  const { stdout: ignored } = await git.run(["check-ignore", "-z", "--stdin"], { input, env, ok: [0, 1] });
  if (ignored.length > 0) return false;
  for (const { path, bytes } of files) {
    const object = await blobFor(git, bytes);
    const there = await checkedOut(git, { object, path: `${folder}/${path}`, mode: "100644" }, 2 * bytes.length);
    if (there === undefined || !there.equals(bytes)) return false;
  }
  return true;
};

/** Stores the bytes as they are, whatever the project's Git would convert; returns the blob's id. */
const blobFor = async (git: Git, bytes: Buffer): Promise<string> =>
  (await git.run(["hash-object", "-w", "--stdin"], { input: bytes })).stdout.toString("latin1").trim();

/** Commits the tree on its parent, and counts the changes; undefined: there are none. */
export const commitOfTree = async (
  git: Git,
  tree: string,
  parent: string,
  message: string,
): Promise<Commit | undefined> => {
  const { stdout } = await git.run(["diff-tree", "-r", "--numstat", "--no-renames", parent, tree]);
  const rows = stdout
    .toString("latin1")
    .split("\n")
    .filter((line) => line !== "");
  if (rows.length === 0) return undefined;
  const sum = (column: number) => rows.reduce((all, line) => all + (Number(line.split("\t")[column]) || 0), 0);
  const commit = await commitOf(git, tree, parent, message);
  return { commit, tree, parent, files: rows.length, insertions: sum(0), deletions: sum(1), omitted: [] };
};
