import { shellQuote } from "../../shell-quote.ts";
import { GitError } from "../git/run.ts";
import { quotedPath } from "./git-dir.ts";
import type { TreeGit } from "./tree-git.ts";

/** Milliseconds; a tree that takes longer counts as unknown. */
const timeoutMs = 15_000;

/**
 * The id of the tree that a commit of the files on disk would have, from a copy of the index: nothing is committed, and
 * the objects are thrown away. One process for the shell and three of git. null: git cannot tell, or it takes too long.
 */
export const treeOnDisk = async (git: TreeGit): Promise<string | null> => {
  using index = git.temporary();
  const objects = `${index.path}.objects`;
  const add = ["-c", "core.looseCompression=0", "add", "--all", "--", ".", ":(exclude,glob,icase)**/.sortie/**"];
  const script = [
    `mkdir ${shellQuote(objects)} || exit`,
    `cp -- ${shellQuote(`${git.gitDir}/index`)} ${shellQuote(index.path)} || exit`,
    `${git.line(add)} || exit`,
    `exec ${git.line(["write-tree", "--missing-ok"])}`,
  ].join("\n");
  const env = {
    GIT_INDEX_FILE: index.path,
    GIT_OBJECT_DIRECTORY: objects,
    GIT_ALTERNATE_OBJECT_DIRECTORIES: quotedPath(git.objects),
    GIT_LITERAL_PATHSPECS: "0",
  };
  try {
    const tree = (await git.script("git write-tree", script, { env, timeoutMs })).stdout.toString("latin1").trim();
    return /^[0-9a-f]{40,64}$/.test(tree) ? tree : null;
  } catch (error) {
    if (error instanceof GitError) return null;
    throw error;
  }
};
