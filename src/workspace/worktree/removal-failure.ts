import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { errorCode, messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";

/**
 * Records the worktrees that should have been removed and could not be, a file each, for the status of their Task and
 * for the doctor. The record is on the disk, not in the log, because a worktree may outlast its Task's log.
 */

/** `key`: the Task or fork. `since`: when the removal first failed for this reason. */
export type Kept = { key: string; reason: string; since: string };

const folderOf = (dataDir: string): string => join(dataDir, "kept");

/** The records of all Tasks; none if the folder does not exist. */
export const removalFailuresIn = (dataDir: string): Kept[] => {
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
      // The file was removed meanwhile.
      return [];
    }
  });
};

export const createRemovalFailures = (dataDir: string, log: Log) => {
  const folder = folderOf(dataDir);
  const all = () => removalFailuresIn(dataDir);
  return {
    all,
    has: (key: string): boolean => all().some((one) => one.key === key),
    tell(key: string, reason: string): void {
      if (all().some((one) => one.key === key && one.reason === reason)) return;
      try {
        mkdirSync(folder, { recursive: true, mode: 0o700 });
        writeFileSync(join(folder, key), reason, { mode: 0o600 });
      } catch (error) {
        // Nothing waits for the record, and the next attempt comes within the hour.
        log.warn({ key, reason, error: messageOf(error) }, "a worktree that was kept could not be named");
      }
    },
    forget: (key: string): void => rmSync(join(folder, key), { force: true }),
  };
};
