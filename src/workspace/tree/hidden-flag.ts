import { existsSync } from "node:fs";
import { asBuffer, type Job, ThreadLimit } from "../../thread.ts";
import type { Git } from "../git/git.ts";
import { indexEntries } from "../git/index-file.ts";
import { indexAt, type IndexPlace, readIndexWith } from "../git/index-reading.ts";
import { GitError } from "../git/run.ts";

/**
 * Paths that an index tells git not to look at: "assume unchanged" and "skip worktree" (gitformat-index(5)). With such
 * a flag, the file that was checked on disk and the one that is committed could differ. Parsed here, because asking git
 * costs a process per commit. An index that cannot be parsed yields none; git then reports what is wrong with it.
 */

const end = Buffer.of(0);

/**
 * The hidden paths that are on disk, each followed by NUL. A path that is not on disk may be excluded by a sparse
 * checkout.
 */
export const hiddenReading: Job<IndexPlace & { worktree: string }, Uint8Array> = {
  name: "hidden",
  run(place) {
    const found: Buffer[] = [];
    for (const { path, hidden } of indexEntries(indexAt(place), place.idBytes))
      if (hidden && existsSync(Buffer.concat([Buffer.from(`${place.worktree}/`), path]))) found.push(path, end);
    return Buffer.concat(found);
  },
};

/** The hidden paths, as from `hiddenReading`. Rejects with GitError if the index takes too long to read. */
export const hiddenIn = async (worktree: string, path: string, idBytes: number): Promise<Buffer> => {
  try {
    return asBuffer(await readIndexWith(hiddenReading, { path, idBytes, worktree }));
  } catch (error) {
    if (!(error instanceof ThreadLimit)) throw error;
    throw new GitError(`Expected an index that can be read, got ${path}: ${error.message}`, 1, "");
  }
};

/** Clears the flags of such paths, so that what is on disk is what gets committed. */
export const clearHiddenFlags = async (git: Git, hidden: Buffer, env: Record<string, string> = {}) => {
  if (hidden.length === 0) return;
  for (const mark of ["--no-assume-unchanged", "--no-skip-worktree"])
    await git.run(["-c", "core.splitIndex=false", "update-index", "-z", mark, "--stdin"], { input: hidden, env });
};
