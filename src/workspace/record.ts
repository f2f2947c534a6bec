import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Given } from "../protocol/event/workspace.ts";

/** Where a Task's worktree came from. `gitDir` is the worktree's own, `projectGitDir` that of the project's files. */
export type WorktreeRecord = {
  toplevel: string;
  prefix: string;
  projectGitDir: string;
  commonDir: string;
  gitDir: string;
  /**
   * The project is a mirror of a repository: nobody works in its folder, and there are no dependency folders to
   * provide.
   */
  mirrored?: true;
  /** The commit that the worktree's files are based on; "" while they are being moved to another. */
  base?: string;
  /** The project's ignored dependency folders as provided to this Task, and the sandbox tier at that time. */
  given?: { tier: number; folders: Given[] };
};

/**
 * undefined: there is no record, or the machine died before its bytes were on the disk. Throws if the record cannot be
 * read now: a caller that took this for "no record" would begin the Task's files anew.
 */
const recordAt = (file: string): WorktreeRecord | undefined => {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  try {
    return JSON.parse(text) as WorktreeRecord;
  } catch {
    return undefined;
  }
};

/** Records by Task, stored next to the worktrees: no command that runs inside one may change where its result lands. */
export const createWorktreeRecords = (home: string) => {
  const known = new Map<string, WorktreeRecord>();
  /** The text of each file; a file is written only when its text changes. */
  const written = new Map<string, string>();
  const fileOf = (taskID: string) => join(home, `${taskID}.json`);

  return {
    of(taskID: string): WorktreeRecord | undefined {
      const before = known.get(taskID);
      if (before !== undefined) return before;
      const record = recordAt(fileOf(taskID));
      if (record !== undefined) known.set(taskID, record);
      return record;
    },
    /** `later`: leaves the write to the next call; if the service dies before that, it finds the record as it was. */
    keep(taskID: string, record: WorktreeRecord, { later = false } = {}): void {
      const text = JSON.stringify(record);
      if (!later && written.get(taskID) !== text) {
        mkdirSync(home, { recursive: true, mode: 0o700 });
        const temp = `${fileOf(taskID)}.tmp`;
        writeFileSync(temp, text, { mode: 0o600 });
        renameSync(temp, fileOf(taskID));
        written.set(taskID, text);
      }
      known.set(taskID, record);
    },
    /** Drops the record from memory. The file stays, and is read again when the record is needed. */
    unload(taskID: string): void {
      known.delete(taskID);
      written.delete(taskID);
    },
    forget(taskID: string): void {
      rmSync(fileOf(taskID), { force: true });
      known.delete(taskID);
      written.delete(taskID);
    },
  };
};
