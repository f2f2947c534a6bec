import { existsSync, linkSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { most, readBounded } from "../file/bounded-read.ts";
import { FileRefused } from "../file/folder.ts";

/**
 * Takes git's own lock on a project's index: while it exists, no git command of the user's changes index or branch. The
 * lock file names our Task, so that the lock of a killed landing is recognised and taken over.
 */

export interface IndexLock {
  /** The lock was left by an earlier, killed landing of the same Task. */
  readonly takenOver: boolean;
  release(): void;
}

const lockOf = (gitDir: string) => join(gitDir, "index.lock");

/** git's own lock files are whole indexes; ours is one line. Something else in its place is a lock of somebody else's. */
const textOf = (path: string): string | undefined => {
  try {
    return readBounded(path, most.index, { first: 200 })?.toString("latin1");
  } catch (error) {
    if (error instanceof FileRefused) return undefined;
    throw error;
  }
};

/** The Task whose landing holds the index; undefined: none does. */
export const taskHolding = (gitDir: string): string | undefined =>
  /^sortie (task_\w{1,60})\n$/.exec(textOf(lockOf(gitDir)) ?? "")?.[1];

/** Removes the lock of a Task that has no landing under way. */
export const releaseIndex = (gitDir: string, taskID: string): void => {
  if (taskHolding(gitDir) === taskID) tryUnlink(lockOf(gitDir));
};

const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code;

const tryUnlink = (path: string) => {
  try {
    unlinkSync(path);
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
  }
};

/** undefined: another process held the lock for all of `waitMs`, or until the signal. */
export const lockIndex = async (
  gitDir: string,
  taskID: string,
  waitMs: number,
  signal?: AbortSignal,
): Promise<IndexLock | undefined> => {
  const lock = lockOf(gitDir);
  const own = join(gitDir, `sortie-${taskID}.lock`);
  const token = `sortie ${taskID}\n`;
  const held = (takenOver: boolean): IndexLock => ({
    takenOver,
    release: () => {
      if (textOf(lock) === token) tryUnlink(lock);
    },
  });
  const deadline = performance.now() + waitMs;
  for (let pause = 5; ; pause = Math.min(pause * 2, 100)) {
    if (textOf(lock) === token) {
      tryUnlink(own);
      return held(true);
    }
    // Written first, then linked: the lock never exists without its owner's name in it.
    // New each time: what stands there, perhaps from somebody else, is not opened.
    tryUnlink(own);
    writeFileSync(own, token, { flag: "wx" });
    try {
      linkSync(own, lock);
      return held(false);
    } catch (error) {
      const code = codeOf(error);
      if (code === "EPERM" || code === "ENOTSUP" || code === "EOPNOTSUPP") {
        if (writeExclusive(lock, token)) return held(false);
      } else if (code !== "EEXIST") throw error;
    } finally {
      tryUnlink(own);
    }
    if (performance.now() > deadline || signal?.aborted === true) return undefined;
    await wait(pause);
  }
};

/** For file systems without hard links. */
const writeExclusive = (path: string, text: string): boolean => {
  try {
    writeFileSync(path, text, { flag: "wx" });
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  }
};

/** Waits until no git command holds the index. false: one did for all of `waitMs`. */
export const waitForIndex = async (gitDir: string, taskID: string, waitMs: number): Promise<boolean> => {
  const deadline = performance.now() + waitMs;
  for (let pause = 5; existsSync(lockOf(gitDir)); pause = Math.min(pause * 2, 100)) {
    if (textOf(lockOf(gitDir)) === `sortie ${taskID}\n`) return true;
    if (performance.now() > deadline) return false;
    await wait(pause);
  }
  return true;
};
