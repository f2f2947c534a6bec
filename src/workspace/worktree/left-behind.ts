import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { errorCode, messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";

/**
 * Names the worktrees that should have gone and stayed, a file each, for the status of their Task and for the doctor.
 * What stands on the disk is told by the disk: it may outlast its Task's log.
 */

/** `key`: of a Task or a fork. `since`: when it first stayed for this reason. */
export type Kept = { key: string; reason: string; since: string };

const folderOf = (dataDir: string): string => join(dataDir, "kept");

/** Of all Tasks; a folder that is not there holds none. */
export const keptIn = (dataDir: string): Kept[] => {
  const folder = folderOf(dataDir);
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch (error) {
    if (errorCode(error) === "ENOENT") return [];
    throw error;
  }
  return names.sort().flatMap((key): Kept[] => {
    try {
      const file = join(folder, key);
      return [{ key, reason: readFileSync(file, "utf8"), since: statSync(file).mtime.toISOString() }];
    } catch {
      // It has gone meanwhile.
      return [];
    }
  });
};

export const createKept = (dataDir: string, log: Log) => {
  const folder = folderOf(dataDir);
  const all = () => keptIn(dataDir);
  return {
    all,
    has: (key: string): boolean => all().some((one) => one.key === key),
    tell(key: string, reason: string): void {
      if (all().some((one) => one.key === key && one.reason === reason)) return;
      try {
        mkdirSync(folder, { recursive: true, mode: 0o700 });
        writeFileSync(join(folder, key), reason, { mode: 0o600 });
      } catch (error) {
        // Nothing waits for it, and the next time comes within the hour.
        log.warn({ key, reason, error: messageOf(error) }, "a worktree that was kept could not be named");
      }
    },
    forget: (key: string): void => rmSync(join(folder, key), { force: true }),
  };
};
