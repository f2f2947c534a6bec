import { existsSync, linkSync, readFileSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";

/**
 * git's own lock on a project's index, taken by us: while it stands no git command of the user's changes index or
 * branch. It holds our Task's name, so that the lock of a landing that was killed is known and taken over.
 */

export interface IndexLock {
  /** Left by an earlier run of the same Task's landing. */
  readonly takenOver: boolean;
  release(): void;
}

const lockOf = (gitDir: string) => join(gitDir, "index.lock");

const textOf = (path: string): string | undefined => {
  try {
    // git's own locks are whole indexes; ours is a line.
    return readFileSync(path).toString("latin1", 0, 200);
  } catch {
    return undefined;
  }
};

const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code;

const tryUnlink = (path: string) => {
  try {
    unlinkSync(path);
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
  }
};

/** undefined: another process held it all the time. */
export const lockIndex = async (gitDir: string, taskID: string, waitMs: number): Promise<IndexLock | undefined> => {
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
    // Written first and linked then: whoever sees the lock sees whose it is.
    writeFileSync(own, token);
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
    if (performance.now() > deadline) return undefined;
    await wait(pause);
  }
};

/** Where the file system has no hard links. */
const writeExclusive = (path: string, text: string): boolean => {
  try {
    writeFileSync(path, text, { flag: "wx" });
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  }
};

/** Waits until no git command is at the index. False: one was all the time. */
export const waitForIndex = async (gitDir: string, taskID: string, waitMs: number): Promise<boolean> => {
  const deadline = performance.now() + waitMs;
  for (let pause = 5; existsSync(lockOf(gitDir)); pause = Math.min(pause * 2, 100)) {
    if (textOf(lockOf(gitDir)) === `sortie ${taskID}\n`) return true;
    if (performance.now() > deadline) return false;
    await wait(pause);
  }
  return true;
};
