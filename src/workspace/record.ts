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
  /** The project is a mirror of a repository: in its folder nobody works, and there is nothing to provide. */
  mirrored?: true;
  /** The commit that the worktree's files are based on; "" while they are being moved to another. */
  base?: string;
  /** The project's ignored dependency folders as provided to this Task, and the sandbox tier at that time. */
  given?: { tier: number; folders: Given[] };
};

/**
 * undefined: there is none, or the machine died before its bytes were on the disk. Throws where it cannot be read now:
 * who took that for none would begin the Task's files anew.
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
  /** What the files hold: they are written where that changes. */
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
    /** `later`: only the next call writes it, and a death before that finds the record as it was. */
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
    /** It stays on the disk, and is read again when it is wanted. */
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
