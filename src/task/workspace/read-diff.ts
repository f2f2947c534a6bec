import { type FileDiff, readDiff } from "../../domain/evidence/diff.ts";
import { type Job, inThread } from "../../thread.ts";

/** Reads a diff, which may be as long as Git makes it. */

export const diffReading: Job<string, FileDiff[]> = { name: "diff", run: readDiff };

/** Characters that are read through at once. */
const mostAtOnce = 1024 * 1024;

export const filesIn = (diff: string, signal: AbortSignal): Promise<FileDiff[]> =>
  diff.length <= mostAtOnce ? Promise.resolve(readDiff(diff)) : inThread(diffReading, diff, { signal });
