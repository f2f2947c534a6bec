/** Recognises the errors of a full disk, whoever reports them. */

/** Of the operating system (also quotas), of SQLite, and of PostgreSQL's own disk. */
const codes = new Set<unknown>(["ENOSPC", "EDQUOT", "SQLITE_FULL", "53100"]);

/** Git reports the operating system's words, or its own without a reason; of a process that was not started there is only a message. */
const words =
  /: (?:No space left on device|Disk quota exceeded)\s*$|write error\. Out of diskspace|^error: unable to write file '[^\n]*'$/m;
const notStarted = /was not started: (?:ENOSPC|EDQUOT): /;

/** Whether an error, or what caused it, is that there was no room to write. */
export const isFull = (error: unknown): boolean => {
  for (let cause = error, depth = 0; cause instanceof Error && depth < 8; cause = cause.cause, depth += 1) {
    if ("code" in cause && codes.has(cause.code)) return true;
    if ("stderr" in cause && typeof cause.stderr === "string" && words.test(cause.stderr)) return true;
    if (notStarted.test(cause.message)) return true;
  }
  return false;
};

/** The error of a write that is not tried, because what is left is kept for others. */
export class DiskFull extends Error {
  readonly code = "ENOSPC";
  constructor() {
    super("the disk of the data folder is full");
  }
}
