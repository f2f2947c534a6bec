import { existsSync, linkSync, renameSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { isAlive, type ProcessMark, processPlace, thisProcess } from "../../process/command/process-identity.ts";
import { lockName } from "../../store/lock.ts";
import { sizeLimits, readBounded } from "../file/bounded-read.ts";
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
 * The start of a lock file's text: git's own lock files are whole indexes, ours is one line. Anything that is not a
 * regular file counts as somebody else's lock.
 */
const textOf = (path: string): string | undefined => {
  try {
    return readBounded(path, sizeLimits.index, { first: 5000 })?.toString("latin1");
  } catch (error) {
    if (error instanceof FileRefused) return undefined;
    throw error;
  }
};

/**
 * The Task whose landing holds an index. `process`: the process that does, and the folder of its worktrees; undefined:
 * unknown, as in locks of earlier versions.
 */
type IndexHolder = {
  taskID: string;
  process: (ProcessMark & { place: string; home: string }) | undefined;
};

const tokenOf = (taskID: string, home: string): string => {
  const mark = thisProcess();
  const folder = encodeURIComponent(home);
  // A token that cannot be read back completely would belong to nobody.
  return mark === undefined || folder.length > 4500
    ? `sortie ${taskID}\n`
    : `sortie ${taskID} ${mark.pid} ${mark.started || "-"} ${processPlace} ${folder}\n`;
};

/** The landing that holds the index; undefined: none does. */
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

/** This process took the lock, and has not released it. */
export const isHeldByThisProcess = ({ process: by }: IndexHolder): boolean =>
  by !== undefined && by.place === processPlace && by.pid === process.pid && isAlive(by);

/** The process that took the lock is known to be gone; false also if that cannot be determined from here. */
export const hasDied = ({ process: by }: IndexHolder): boolean =>
  by !== undefined && by.place === processPlace && !isAlive(by);

/** Another process of this machine, which is still alive, has the lock. */
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
 * Takes the lock. undefined: another process held it for all of `waitMs`, or until the signal aborted. `home`: the
 * folder of the Task's worktree and of the files that its landing keeps.
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

/**
 * Writes a new file each time, and never opens the one that is there, perhaps from somebody else. false: another
 * process is writing it.
 */
const writeOwn = (asked: Asked, token: string): boolean => {
  tryUnlink(ownOf(asked));
  return writeExclusive(ownOf(asked), token);
};

/**
 * Writes the token to a file of its own, then links that as the lock, so that the lock never exists without its owner's
 * name. The name is read back, as another process may have written in between.
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
 * Takes over the lock that an earlier landing of the same Task left, unless its process is alive. Of several services
 * of this machine only one succeeds: from then on the lock has its name.
 */
const takeOver = async (asked: Asked, token: string): Promise<boolean> => {
  const { gitDir, taskID } = asked;
  const isLeft = (): boolean => {
    const holder = holderOf(gitDir);
    return holder?.taskID === taskID && !isHeldElsewhere(holder);
  };
  if (textOf(lockOf(gitDir)) === token) return true;
  if (!isLeft()) return false;
  // If this lock cannot be taken for another reason, the landing is ended all the same: as a rule there is only one
  // service.
  using turn = await lockName(`landing ${gitDir}`, 1000).catch(() => null);
  if (turn === undefined || !isLeft() || !writeOwn(asked, token)) return false;
  try {
    renameSync(ownOf(asked), lockOf(gitDir));
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
  }
  return textOf(lockOf(gitDir)) === token;
};

/** Creates the file if there is none; for file systems without hard links. */
const writeExclusive = (path: string, text: string): boolean => {
  try {
    writeFileSync(path, text, { flag: "wx" });
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  }
};

/**
 * Waits until no git command holds the index; the Task's own lock counts as free. false: another one held it for all of
 * `waitMs`.
 */
export const waitForIndex = async (gitDir: string, taskID: string, waitMs: number): Promise<boolean> => {
  const deadline = performance.now() + waitMs;
  for (let pause = 5; existsSync(lockOf(gitDir)); pause = Math.min(pause * 2, 100)) {
    if (holderOf(gitDir)?.taskID === taskID) return true;
    if (performance.now() > deadline) return false;
    await wait(pause);
  }
  return true;
};
