import { inThread, type Job } from "../../thread.ts";
import { expectBounded, sizeLimits, readBounded, statsAt } from "../file/bounded-read.ts";

/**
 * Reads an index that anybody may have written, possibly hundreds of megabytes with millions of entries. A usual one is
 * read at once, a large one in a thread, bounded in time.
 */

export type IndexPlace = { path: string; idBytes: number };

/** Bytes of an index that is read at once, which takes some milliseconds. */
export const atOnce = 512 * 1024;

/** Milliseconds. An index of a million files takes two seconds. */
const timeoutMs = 30_000;

/** The bytes of the index; empty: there is none. */
export const indexAt = ({ path }: IndexPlace): Buffer => readBounded(path, sizeLimits.index) ?? Buffer.alloc(0);

/** Runs the job. Rejects with FileRefused if the index is not a regular file or too large, and with ThreadLimit. */
export const readIndexWith = async <P extends IndexPlace, O>(job: Job<P, O>, place: P): Promise<O> => {
  expectBounded(place.path, sizeLimits.index);
  return (statsAt(place.path)?.size ?? 0) <= atOnce ? job.run(place) : inThread(job, place, { timeoutMs });
};
