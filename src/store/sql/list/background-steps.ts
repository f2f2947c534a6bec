import { setTimeout as pause } from "node:timers/promises";
import { messageOf } from "../../../error.ts";
import type { Log } from "../../../log.ts";

/** Background work in small steps, such as on data from before this version. */

/** Milliseconds after each step, in which other work gets its turn. */
const pauseMs = 10;
const againMs = 30_000;

export type Steps = AsyncDisposable & {
  /** Tells that there may be something to do again. */
  wake(): void;
};

/**
 * Runs one step after another. Each resolves to the milliseconds that the next one may wait, or to undefined once
 * nothing is left until `wake` is called. `soonMs`: how long a step waits after `wake`, since more may come. A step
 * that fails is tried again later; `failed` is what the log says the first time. Disposal waits for the step under way.
 */
export const inSteps = (options: {
  step: () => Promise<number | undefined>;
  soonMs?: number;
  failed: string;
  log: Log;
}): Steps => {
  const { step, soonMs = 0, failed, log } = options;
  const stop = new AbortController();
  const { signal } = stop;
  let woken = Promise.withResolvers<void>();

  const rest = (ms: number) => pause(ms, undefined, { signal, ref: false }).catch(() => {});
  const run = async (): Promise<void> => {
    // Lets the store open first.
    await pause(0);
    let isFailing = false;
    while (!signal.aborted) {
      let waits: number | undefined = againMs;
      try {
        waits = await step();
        isFailing = false;
      } catch (error) {
        if (!signal.aborted && !isFailing) log.warn({ error: messageOf(error) }, failed);
        isFailing = true;
      }
      if (signal.aborted) return;
      const more = woken.promise.then(() => rest(soonMs));
      if (waits === undefined) await more;
      else if (waits < soonMs) await rest(Math.max(pauseMs, waits));
      else await Promise.race([rest(waits), more]);
      // The next step sees everything for which it was woken until now.
      woken = Promise.withResolvers();
    }
  };
  const running = run();
  return {
    wake: () => woken.resolve(),
    async [Symbol.asyncDispose]() {
      stop.abort();
      woken.resolve();
      await running;
    },
  };
};
