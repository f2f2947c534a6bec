import { existsSync, linkSync, renameSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { isAlive, type ProcessMark, processPlace, thisProcess } from "../../process/command/living.ts";
import { lockName } from "../../store/lock.ts";
import { most, readBounded } from "../file/bounded-read.ts";
import { FileRefused } from "../file/folder.ts";

/**
 * Takes git's own lock on a project's index: while it exists, no git command of the user's changes index or branch. The
 * lock file names our Task and its process, so that the lock of a killed landing is recognised and taken over: by its
 * own service, or by another one of the same machine and log.
 */

export interface IndexLock {
  /** The lock was left by an earlier, killed landing of the same Task. */
  readonly takenOver: boolean;
  release(): void;
}

const lockOf = (gitDir: string) => join(gitDir, "index.lock");

/**
 * git's own lock files are whole indexes; ours is one line. Something else in its place is a lock of somebody else's.
 */
const textOf = (path: string): string | undefined => {
  try {
    return readBounded(path, most.index, { first: 5000 })?.toString("latin1");
  } catch (error) {
    if (error instanceof FileRefused) return undefined;
    throw error;
  }
};

/**
 * Whose landing holds an index. `process`: where known, by which process, and of which folder of worktrees; locks of
 * earlier versions do not say.
 */
type IndexHolder = {
  taskID: string;
  process: (ProcessMark & { place: string; home: string }) | undefined;
};

const tokenOf = (taskID: string, home: string): string => {
  const mark = thisProcess();
  const folder = encodeURIComponent(home);
  // What is not read back whole would be nobody's.
  return mark === undefined || folder.length > 4500
    ? `sortie ${taskID}\n`
    : `sortie ${taskID} ${mark.pid} ${mark.started || "-"} ${processPlace} ${folder}\n`;
};

/** undefined: no landing does. */
export const holderOf = (gitDir: string): IndexHolder | undefined => {
  const form = /^sortie (task_\w{1,60})(?: (\d{1,10}) (\d{1,20}|-) (\w{16}) (\S{1,4500}))?\n$/;
  const [, taskID, pid, started = "", place, home] = form.exec(textOf(lockOf(gitDir)) ?? "") ?? [];
  if (taskID === undefined) return undefined;
  if (pid === undefined || place === undefined || home === undefined) return { taskID, process: undefined };
  const mark = { pid: Number(pid), started: started === "-" ? "" : started, place };
  try {
    return { taskID, process: { ...mark, home: decodeURIComponent(home) } };
  } catch {
    return { taskID, process: undefined };
  }
};

/** It began in this process, which did not come to its end. */
export const isOurs = ({ process: by }: IndexHolder): boolean =>
  by !== undefined && by.place === processPlace && by.pid === process.pid && isAlive(by);

/** Its process is known to be gone; false also where that cannot be told from here. */
export const hasDied = ({ process: by }: IndexHolder): boolean =>
  by !== undefined && by.place === processPlace && !isAlive(by);

/** By another process of this machine, which is not gone. */
export const isHeldElsewhere = ({ process: by }: IndexHolder): boolean =>
  by !== undefined && by.place === processPlace && by.pid !== process.pid && isAlive(by);

/** For a message: who keeps an index locked. */
export const whoHolds = (gitDir: string): string => {
  const holder = holderOf(gitDir);
  if (holder === undefined) return `another git command holds ${lockOf(gitDir)}`;
  return `the landing of ${holder.taskID} holds ${lockOf(gitDir)}; the service that began it ends it when it runs`;
};

/** Removes the lock of a Task that has no landing under way. */
export const releaseIndex = (gitDir: string, taskID: string): void => {
  if (holderOf(gitDir)?.taskID === taskID) tryUnlink(lockOf(gitDir));
};

const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code;

const tryUnlink = (path: string) => {
  try {
    unlinkSync(path);
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
  }
};

type Asked = { gitDir: string; taskID: string; home: string };

/**
 * undefined: another process held the lock for all of `waitMs`, or until the signal. `home`: the folder of the Task's
 * worktree and of what its landing keeps.
 */
export const lockIndex = async (asked: Asked, waitMs: number, signal?: AbortSignal): Promise<IndexLock | undefined> => {
  const { gitDir, taskID, home } = asked;
  const lock = lockOf(gitDir);
  const token = tokenOf(taskID, home);
  const held = (takenOver: boolean): IndexLock => ({
    takenOver,
    release: () => {
      if (textOf(lock) === token) tryUnlink(lock);
    },
  });
  const deadline = performance.now() + waitMs;
  for (let pause = 5; ; pause = Math.min(pause * 2, 100)) {
    if (await takeOver(asked, token)) return held(true);
    if (linkNew(asked, token)) return held(false);
    if (performance.now() > deadline || signal?.aborted === true) return undefined;
    await wait(pause);
  }
};

const ownOf = ({ gitDir, taskID }: Asked): string => join(gitDir, `sortie-${taskID}.lock`);

/** New each time: what stands there, perhaps from somebody else, is not opened. false: another process is at it. */
const writeOwn = (asked: Asked, token: string): boolean => {
  tryUnlink(ownOf(asked));
  return writeExclusive(ownOf(asked), token);
};

/**
 * Written first, then linked: the lock never exists without its owner's name in it, which is read back, as another
 * process may have written in between.
 */
const linkNew = (asked: Asked, token: string): boolean => {
  const lock = lockOf(asked.gitDir);
  if (!writeOwn(asked, token)) return false;
  try {
    linkSync(ownOf(asked), lock);
    return textOf(lock) === token;
  } catch (error) {
    const code = codeOf(error);
    if (code === "EPERM" || code === "ENOTSUP" || code === "EOPNOTSUPP") return writeExclusive(lock, token);
    if (code === "EEXIST" || code === "ENOENT") return false;
    throw error;
  } finally {
    tryUnlink(ownOf(asked));
  }
};

/**
 * Takes what an earlier landing of the same Task left, unless the process that has it lives. Of several services of
 * this machine one does: from then on the lock has its name.
 */
const takeOver = async (asked: Asked, token: string): Promise<boolean> => {
  const { gitDir, taskID } = asked;
  const isLeft = (): boolean => {
    const holder = holderOf(gitDir);
    return holder?.taskID === taskID && !isHeldElsewhere(holder);
  };
  if (textOf(lockOf(gitDir)) === token) return true;
  if (!isLeft()) return false;
  // Where no such lock can be had, the landing is ended all the same: as a rule there is one service.
  using turn = await lockName(`landing ${gitDir}`, 1000).catch(() => null);
  if (turn === undefined || !isLeft() || !writeOwn(asked, token)) return false;
  try {
    renameSync(ownOf(asked), lockOf(gitDir));
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
  }
  return textOf(lockOf(gitDir)) === token;
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
    if (holderOf(gitDir)?.taskID === taskID) return true;
    if (performance.now() > deadline) return false;
    await wait(pause);
  }
  return true;
};
