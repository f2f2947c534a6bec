import { shellQuote } from "../../shell-quote.ts";
import { diffArgs } from "../object/tree-change.ts";
import { quotedPath } from "./git-dir.ts";
import type { TreeGit } from "./tree-git.ts";

/** The diff from a commit to the tree on disk, new files included. Works on a copy of the index. */
export const diffOfTree = async (git: TreeGit, from: string): Promise<string> => {
  using index = git.temporary();
  const objects = `${index.path}.objects`;
  const script = [
    `mkdir ${shellQuote(objects)} || exit`,
    `cp -- ${shellQuote(`${git.gitDir}/index`)} ${shellQuote(index.path)} || exit`,
    `${git.line(["add", "--intent-to-add", "--", "."])} || exit`,
    `exec ${git.line([...diffArgs, from, "--"])}`,
  ].join("\n");
  // The objects that git writes for new files go into a folder of their own: the repository's may be the user's, and
  // read-only.
  const env = {
    GIT_INDEX_FILE: index.path,
    GIT_OBJECT_DIRECTORY: objects,
    GIT_ALTERNATE_OBJECT_DIRECTORIES: quotedPath(git.objects),
  };
  const { stdout } = await git.script("git diff", script, { env });
  return stdout.toString("utf8");
};
