import type { DomainEvent, StreamID } from "../domain/event.ts";
import { messageOf } from "../error.ts";

/** Repeats runs that ended for a reason that may soon be gone, up to a number of times in a row. */

/** How many runs in a row may end for want of file descriptors: with the engine's pauses, some five minutes. */
export const mostShortages = 10;

const words = /\b(?:EMFILE|ENFILE)\b|too many open files/i;

/** Whether no file descriptor was free, in this process, in one that it started, or on the machine. */
export const lacksDescriptors = (error: unknown): boolean => {
  for (let cause = error, depth = 0; cause instanceof Error && depth < 8; cause = cause.cause, depth += 1)
    if (words.test(cause.message)) return true;
  return false;
};

export type Repeats = {
  /**
   * Call it when a run begins. The result decides, once, whether the run may be repeated after an error that ended it.
   * If so, it records that; otherwise the next run would assume that the service died in this step.
   */
  begin(stream: StreamID): (error: unknown, record: RecordEvents) => Promise<boolean>;
};

type RecordEvents = (events: DomainEvent[]) => Promise<unknown>;

/** `most`: how many runs in a row such an error may end; 0: none. `shown`: the error in words. */
export const createRepeats = (
  most: (error: unknown) => number,
  shown: (error: unknown) => string = messageOf,
): Repeats => {
  const ended = new Map<StreamID, number>();
  return {
    begin(stream) {
      const before = ended.get(stream) ?? 0;
      ended.delete(stream);
      return async (error, record) => {
        if (before >= most(error)) return false;
        ended.set(stream, before + 1);
        await record([{ type: "run.stopped", data: { reason: shown(error).slice(0, 1000) } }]);
        return true;
      };
    },
  };
};
