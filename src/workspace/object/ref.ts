import { existsSync, mkdirSync, renameSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { messageOf } from "../../error.ts";
import { sizeLimits, statsAt, textAt } from "../file/bounded-read.ts";
import type { Git } from "../git/git.ts";
import { packedRef, refOf } from "../git/repository.ts";

/**
 * Refs of the service's own in the project's repository: the branches `sortie/…`, and `refs/sortie/base/…`, which hold
 * the commits that Tasks are based on. Refs that are files are written as git does it, by a lock and a rename, without
 * a process.
 */

export const baseRefOf = (key: string): string => `refs/sortie/base/${key}`;

export const branchRefOf = (branch: string): string => `refs/heads/${branch}`;

type Refs = { commonDir: string; git: Git };

/** Milliseconds to wait for the lock of another git. After that, the lock counts as left by a git that was killed. */
const lockWaitMs = 2000;

const isFiles = (commonDir: string): boolean => !existsSync(join(commonDir, "reftable"));

/** Points the ref to the commit, whatever it pointed to. */
export const setRef = async ({ commonDir, git }: Refs, ref: string, commit: string): Promise<void> => {
  const path = join(commonDir, ref);
  // A new folder must not take the name of a ref.
  const folder = dirname(path);
  if (!isFiles(commonDir) || (!existsSync(folder) && refOf(commonDir, dirname(ref)) !== null)) {
    await git.run(["update-ref", ref, commit]);
    return;
  }
  if (looseAt(path) === `${commit}\n`) return;
  mkdirSync(folder, { recursive: true });
  const lock = `${path}.lock`;
  for (const until = performance.now() + lockWaitMs; ; await wait(10))
    try {
      writeFileSync(lock, `${commit}\n`, { flag: "wx" });
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      if (performance.now() > until) rmSync(lock, { force: true });
    }
  renameSync(lock, path);
};

/** The content of a ref's file; undefined: no regular file is there. */
const looseAt = (path: string): string | undefined => {
  try {
    return textAt(path, sizeLimits.pointer, { nofollow: true });
  } catch {
    return undefined;
  }
};

/**
 * Removes the refs that exist, and locks that a dead writer left. A ref that cannot be removed is reported to
 * `problem`.
 */
export const removeRefs = async (
  { commonDir, git }: Refs,
  refs: readonly string[],
  problem: (ref: string, why: string) => void,
): Promise<void> => {
  for (const ref of refs)
    try {
      await removeRefLocks(commonDir, [ref]);
      if (!removeLoose(commonDir, ref)) await git.run(["update-ref", "-d", ref]);
    } catch (error) {
      problem(ref, messageOf(error));
    }
};

/**
 * Removes a ref that is a file and nothing else, as git does it, without a process. false: git must do the rest.
 *
 * A `git pack-refs` may copy the refs that it reads into packed-refs, under that file's lock: if it has read this ref,
 * its lock or its copy is seen after the removal. So the lock of packed-refs, which a kill would leave in the user's
 * way, is never taken.
 */
const removeLoose = (commonDir: string, ref: string): boolean => {
  const path = join(commonDir, ref);
  const lock = `${path}.lock`;
  if (!isFiles(commonDir) || !isPlain(path) || isKeptElsewhere(commonDir, ref)) return false;
  try {
    writeFileSync(lock, "", { flag: "wx" });
  } catch {
    return false;
  }
  try {
    if (!isPlain(path)) return false;
    rmSync(path);
    return !isKeptElsewhere(commonDir, ref);
  } finally {
    rmSync(lock, { force: true });
    removeEmpty(commonDir, dirname(ref));
  }
};

/** Whether a regular file holds a commit's id. A symbolic ref is left to git. */
const isPlain = (path: string): boolean => /^(?:[0-9a-f]{40}|[0-9a-f]{64})\n?$/.test(looseAt(path) ?? "");

/**
 * Whether the ref is, or may be about to be, in packed-refs as well, or has a log. The lock is checked first, because
 * git removes it only once the copy is there.
 */
const isKeptElsewhere = (commonDir: string, ref: string): boolean => {
  const packed = join(commonDir, "packed-refs");
  if (existsSync(`${packed}.lock`) || existsSync(join(commonDir, "logs", ref))) return true;
  const stats = statsAt(packed);
  if (stats === undefined) return false;
  return !stats.isFile() || stats.size > mostSearched || packedRef(commonDir, ref) !== null;
};

/** Bytes of packed-refs that are searched here; git finds a ref in a larger file without reading it all. */
const mostSearched = 1024 * 1024;

/** Removes empty folders as git does: refs/heads and its like stay. */
const removeEmpty = (commonDir: string, folder: string): void => {
  for (let name = folder; name.split("/").length > 2; name = dirname(name))
    try {
      rmdirSync(join(commonDir, name));
    } catch {
      return;
    }
};

/** Removes locks on these refs whose writer died between lock and rename. Nobody may be writing the refs. */
export const removeRefLocks = async (commonDir: string, refs: readonly string[]): Promise<void> => {
  if (isFiles(commonDir)) for (const ref of refs) await withoutLock(`${join(commonDir, ref)}.lock`);
};

/** Waits for a lock, since a living git removes its own; removes it after `lockWaitMs`. */
const withoutLock = async (lock: string): Promise<void> => {
  for (const until = performance.now() + lockWaitMs; existsSync(lock); await wait(10))
    if (performance.now() > until) rmSync(lock, { force: true });
};

/** The commit of the branch of a Task or fork; undefined: no such branch. */
export const branchTip = async (git: Git, branch: string): Promise<string | undefined> => {
  const found = await git.run(["rev-parse", "--verify", "-q", branchRefOf(branch)], { ok: [0, 1] });
  return found.stdout.toString("latin1").trim() || undefined;
};
