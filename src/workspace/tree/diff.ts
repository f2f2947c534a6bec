import { randomBytes } from "node:crypto";
import { copyFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Git } from "../git/git.ts";

/** Unified diffs of a commit, or of the tree on disk. */

export const diffArgs = ["diff", "--no-color", "--find-renames", "--ignore-submodules=dirty"];

/** The diff against the base. Without a commit: of the tree on disk, new files included, by a copy of the index. */
export const diffOf = async (git: Git, gitDir: string, base: string, commit: string | null): Promise<string> => {
  if (commit !== null) return (await git.run([...diffArgs, base, commit, "--"])).stdout.toString("utf8");
  const index = join(gitDir, `sortie-diff-${randomBytes(6).toString("hex")}`);
  try {
    copyFileSync(join(gitDir, "index"), index);
    const env = { GIT_INDEX_FILE: index };
    await git.run(["add", "--intent-to-add", "--", "."], { env });
    return (await git.run([...diffArgs, base, "--"], { env })).stdout.toString("utf8");
  } finally {
    rmSync(index, { force: true });
  }
};
