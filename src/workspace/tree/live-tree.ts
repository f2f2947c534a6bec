import type { TreeGit } from "./tree-git.ts";
import { quotedPath } from "./git-dir.ts";
import { writeTreeAndPack, restored, sortChanges, type WriteTreeRequest, type WrittenTree } from "./commit.ts";
import { hiddenIn, clearHiddenFlags } from "./hidden-flag.ts";
import { statusOf } from "./status.ts";
import { shellQuote } from "../../shell-quote.ts";
import { join } from "node:path";

/**
 * Writes the tree that a commit of the files on disk would have, and a pack of the objects that its base does not have,
 * while work on the files goes on. Uses a copy of the index, and a folder for objects that is deleted afterwards. No
 * HEAD, index or file is touched.
 */
export const writeTreeAside = async (
  { git, worktree, gitDir, base, without = [], maxBytes }: Omit<WriteTreeRequest, "last">,
  signal: AbortSignal,
): Promise<Pick<Extract<WrittenTree, { changed: true }>, "tree" | "pack">> => {
  using index = git.temporary();
  const objects = `${index.path}.objects`;
  const env = {
    GIT_INDEX_FILE: index.path,
    GIT_OBJECT_DIRECTORY: objects,
    GIT_ALTERNATE_OBJECT_DIRECTORIES: [`${git.gitDir}/objects`, git.objects].map(quotedPath).join(":"),
  };
  const aside = within(git, env, signal);
  // A split index would share a part with the agent's.
  const copy = `mkdir ${shellQuote(objects)} && cp -p -- ${shellQuote(`${git.gitDir}/index`)} ${shellQuote(index.path)}`;
  await aside.script("cp of the index", copy);
  await clearHiddenFlags(aside, await hiddenIn(worktree, join(gitDir, "index"), base.commit.length / 2));
  const { changes } = await statusOf(aside, [], ["--no-ahead-behind"]);
  const { keep, unstage } = await sortChanges(worktree, changes, { without, maxBytes, tidies: false });
  if (unstage.length > 0) await aside.run(["update-index", "-z", "--index-info"], { input: restored(unstage) });
  const pack = git.temporary();
  try {
    return { tree: await writeTreeAndPack(aside, keep, [base.tree], pack), pack };
  } catch (error) {
    pack[Symbol.dispose]();
    throw error;
  }
};

/** The same git with these variables, until the signal aborts. */
const within = (git: TreeGit, env: Record<string, string>, signal: AbortSignal): TreeGit => ({
  ...git,
  // Objects that are deleted afterwards need not be small.
  line: (args) => git.line(["-c", "core.looseCompression=0", ...args]),
  run: (args, options) => git.run(args, { ...options, env: { ...options?.env, ...env }, signal }),
  script: (shown, text, options) => git.script(shown, text, { ...options, env: { ...options?.env, ...env }, signal }),
});
