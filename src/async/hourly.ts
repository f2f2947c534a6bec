/** Work that runs a minute after the start and then every hour, never twice at the same time. */

export type Hourly = AsyncDisposable & {
  /** Runs the work now, after a run under way; for tests. */
  begin(): Promise<void>;
};

/**
 * `failed`: called with the error of a run that was not stopped. `isOn` false: the work runs only when `begin` is
 * called.
 */
export const hourly = (
  work: (signal: AbortSignal) => Promise<void>,
  failed: (error: unknown) => void,
  isOn = true,
): Hourly => {
  const stop = new AbortController();
  let running = Promise.resolve();
  const begin = (): Promise<void> => {
    running = running
      .then(() => work(stop.signal))
      .catch((error: unknown) => {
        if (!stop.signal.aborted) failed(error);
      });
    return running;
  };
  const timers = isOn ? [setTimeout(() => void begin(), 60_000), setInterval(() => void begin(), 3_600_000)] : [];
  for (const timer of timers) timer.unref();
  return {
    begin,
    async [Symbol.asyncDispose]() {
      for (const timer of timers) clearTimeout(timer);
      stop.abort();
      await running;
    },
  };
};
