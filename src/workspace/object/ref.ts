import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { messageOf } from "../../error.ts";
import type { Git } from "../git/git.ts";
import { refOf } from "../git/repository.ts";

/**
 * Refs of the service's own in the project's repository: the branches `sortie/…`, and `refs/sortie/base/…`, which keep
 * what a Task is based on. Where refs are files they are written as git does it, by a lock and a rename, without a
 * process.
 */

export const baseRefOf = (key: string): string => `refs/sortie/base/${key}`;

export const branchRefOf = (branch: string): string => `refs/heads/${branch}`;

type Refs = { commonDir: string; git: Git };

/** How long a lock of another git's is waited for, in milliseconds. After that it is one that a killed git left. */
const lockWaitMs = 2000;

const isFiles = (commonDir: string): boolean => !existsSync(join(commonDir, "reftable"));

/** Points the ref to the commit, whatever it pointed to. */
export const setRef = async ({ commonDir, git }: Refs, ref: string, commit: string): Promise<void> => {
  const path = join(commonDir, ref);
  // A new folder must not stand beside a ref of its name.
  const folder = dirname(path);
  if (!isFiles(commonDir) || (!existsSync(folder) && refOf(commonDir, dirname(ref)) !== null)) {
    await git.run(["update-ref", ref, commit]);
    return;
  }
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

/** Removes refs that are there, and a lock that a dead writer left. One that cannot be removed is reported to `problem`. */
export const removeRefs = async (
  { commonDir, git }: Refs,
  refs: readonly string[],
  problem: (ref: string, why: string) => void,
): Promise<void> => {
  for (const ref of refs)
    try {
      await removeRefLocks(commonDir, [ref]);
      await git.run(["update-ref", "-d", ref]);
    } catch (error) {
      problem(ref, messageOf(error));
    }
};

/** Removes what a writer of these refs left that died between its lock and the rename. None may be writing them. */
export const removeRefLocks = async (commonDir: string, refs: readonly string[]): Promise<void> => {
  if (isFiles(commonDir)) for (const ref of refs) await withoutLock(`${join(commonDir, ref)}.lock`);
};

/** A living git's goes by itself. */
const withoutLock = async (lock: string): Promise<void> => {
  for (const until = performance.now() + lockWaitMs; existsSync(lock); await wait(10))
    if (performance.now() > until) rmSync(lock, { force: true });
};

/** The commit of the branch of a Task or fork; undefined: no such branch. */
export const branchTip = async (git: Git, branch: string): Promise<string | undefined> => {
  const found = await git.run(["rev-parse", "--verify", "-q", branchRefOf(branch)], { ok: [0, 1] });
  return found.stdout.toString("latin1").trim() || undefined;
};
