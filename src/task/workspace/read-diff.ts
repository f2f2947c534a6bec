import { type FileDiff, readDiff } from "../../domain/evidence/diff.ts";
import { type Job, inThread } from "../../thread.ts";

/** Parses a diff, whose length Git does not limit. */

export const diffReading: Job<string, FileDiff[]> = { name: "diff", run: readDiff };

/** Diffs with more characters are parsed in a thread. */
const mostAtOnce = 1024 * 1024;

export const filesIn = (diff: string, signal: AbortSignal): Promise<FileDiff[]> =>
  diff.length <= mostAtOnce ? Promise.resolve(readDiff(diff)) : inThread(diffReading, diff, { signal });
