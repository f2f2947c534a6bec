import { existsSync } from "node:fs";
import { most, readLarge } from "../file/bounded-read.ts";
import type { Git } from "../git/git.ts";
import { indexEntries } from "../git/index-file.ts";

/**
 * Paths that an index tells git not to look at: "assume unchanged" and "skip worktree" (gitformat-index(5)). With such
 * a flag, the file that was checked on disk and the one that is committed could differ. Parsed here, because asking git
 * costs a process per commit. An index that cannot be parsed yields none; git then reports what is wrong with it.
 */
export const hiddenPaths = (index: Buffer, idBytes: number): Buffer[] => {
  const found: Buffer[] = [];
  for (const { path, hidden } of indexEntries(index, idBytes)) if (hidden) found.push(path);
  return found;
};

/** Files on disk that an index tells git not to look at. */
export const hiddenIn = async (worktree: string, index: string, idBytes: number): Promise<Buffer[]> => {
  const bytes = await readLarge(index, most.index);
  const hidden = bytes === undefined ? [] : hiddenPaths(bytes, idBytes);
  // A file that is not on disk may be excluded by a sparse checkout.
  return hidden.filter((path) => existsSync(Buffer.concat([Buffer.from(`${worktree}/`), path])));
};

/** Clears the flags, so that what is on disk is what gets committed. */
export const showHidden = async (git: Git, hidden: readonly Buffer[], env: Record<string, string> = {}) => {
  if (hidden.length === 0) return;
  const input = Buffer.concat(hidden.flatMap((path) => [path, Buffer.of(0)]));
  for (const mark of ["--no-assume-unchanged", "--no-skip-worktree"])
    await git.run(["-c", "core.splitIndex=false", "update-index", "-z", mark, "--stdin"], { input, env });
};
