import type { StreamID } from "../domain/event.ts";

/** Runs that something ended which may be gone in a moment: they begin anew, so many times in a row. */

/** The most runs in a row that want of descriptors may end: with the engine's pauses, some five minutes. */
export const mostShortages = 10;

const words = /\b(?:EMFILE|ENFILE)\b|too many open files/i;

/** No descriptor was free, in this process, in one that it started, or on the machine. */
export const lacksDescriptors = (error: unknown): boolean => {
  for (let cause = error, depth = 0; cause instanceof Error && depth < 8; cause = cause.cause, depth += 1)
    if (words.test(cause.message)) return true;
  return false;
};

export type Repeats = {
  /** For a run that begins: decides, once, whether an error that ends it is one to begin anew after. */
  begin(stream: StreamID): (error: unknown) => boolean;
};

/** `most`: of runs in a row that an error like this one may end; 0: none. */
export const createRepeats = (most: (error: unknown) => number): Repeats => {
  const ended = new Map<StreamID, number>();
  return {
    begin(stream) {
      const before = ended.get(stream) ?? 0;
      ended.delete(stream);
      return (error) => {
        if (before >= most(error)) return false;
        ended.set(stream, before + 1);
        return true;
      };
    },
  };
};
