import { setTimeout as pause } from "node:timers/promises";
import { messageOf } from "../../../error.ts";
import type { Log } from "../../../log.ts";

/** Work in small steps beside everything else, such as on what was in a database before this version. */

/** After each step, in milliseconds: other work gets between. */
const pauseMs = 10;
const againMs = 30_000;

export type Steps = AsyncDisposable & {
  /** There may be something to do again. */
  wake(): void;
};

/**
 * Runs a step after the other: each resolves to how long the next one may wait, or to undefined once nothing is left
 * until `wake` is called. `soonMs`: how long it waits then, as more may come. One that fails is tried again later;
 * `failed` is what the log says the first time. Disposal waits for the step under way.
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
    // The store is open first.
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
      // What it was woken for until now, the next step sees.
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
