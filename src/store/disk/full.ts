/** Recognises the errors of a full disk, whichever program reports them. */

/** The codes of the operating system (also for quotas), of SQLite, and of PostgreSQL for its own disk. */
const codes = new Set<unknown>(["ENOSPC", "EDQUOT", "SQLITE_FULL", "53100"]);

/**
 * Git repeats the operating system's words, or uses its own without a reason. For a process that was not started there
 * is only a message.
 */
const words =
  /: (?:No space left on device|Disk quota exceeded)\s*$|write error\. Out of diskspace|^error: unable to write file '[^\n]*'$/m;
const notStarted = /was not started: (?:ENOSPC|EDQUOT): /;

/** Whether an error, or one of its causes, is that there was no room to write. */
export const isFull = (error: unknown): boolean => {
  for (let cause = error, depth = 0; cause instanceof Error && depth < 8; cause = cause.cause, depth += 1) {
    if ("code" in cause && codes.has(cause.code)) return true;
    if ("stderr" in cause && typeof cause.stderr === "string" && words.test(cause.stderr)) return true;
    if (notStarted.test(cause.message)) return true;
  }
  return false;
};

/** The error of a write that is not tried, because the remaining space is kept for cancels and deletions. */
export class DiskFull extends Error {
  readonly code = "ENOSPC";
  constructor() {
    super("the disk of the data folder is full");
  }
}
