import type { DomainEvent } from "../domain/event.ts";

/** Keeps a run from taking the same step again and again while nothing new is on record. */

/** A step was repeated without recording a fact so often that it will never record one. */
export class Stuck extends Error {
  constructor(step: string, version: number) {
    super(
      `The step "${step}" recorded nothing ${delaysMs.length + 1} times at the same state (after ${version} events).`,
    );
    this.name = "Stuck";
  }
}

/** How long to wait before the step is tried again, in milliseconds. */
const delaysMs = [1000, 5000, 30_000];

export type StuckGuardOptions = {
  /** The version of the stream that is folded. */
  version: () => number;
  record: (events: readonly DomainEvent[]) => Promise<unknown>;
  sleep: (ms: number) => Promise<void>;
};

/**
 * Call it before each step. When the same step comes again at the same version, the guard records `run.stuck` and waits
 * 1, 5, and 30 seconds; the next time it rejects with `Stuck`. Its own facts are no progress; those of others are.
 */
export const createStuckGuard = ({ version, record, sleep }: StuckGuardOptions) => {
  let before: { step: string; version: number } | undefined;
  let times = 0;
  return async (step: string): Promise<void> => {
    if (before?.step !== step || before.version !== version()) times = 0;
    else {
      const delayMs = delaysMs[times];
      if (delayMs === undefined) throw new Stuck(step, version());
      times += 1;
      await record([{ type: "run.stuck", data: { step, version: version() } }]);
      before = { step, version: version() };
      await sleep(delayMs);
      if (before.version !== version()) times = 0;
    }
    before = { step, version: version() };
  };
};
