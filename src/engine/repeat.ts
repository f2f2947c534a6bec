import type { DomainEvent, StreamID } from "../domain/event.ts";
import { messageOf } from "../error.ts";

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
  /**
   * For a run that begins: decides, once, whether an error that ends it is one to begin anew after. Then it is
   * recorded, without which the next run would take the service for dead in this step.
   */
  begin(stream: StreamID): (error: unknown, record: RecordEvents) => Promise<boolean>;
};

type RecordEvents = (events: DomainEvent[]) => Promise<unknown>;

/** `most`: of runs in a row that an error like this one may end; 0: none. `shown`: the error in words. */
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
