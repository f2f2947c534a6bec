/** One landing at a time for a project, in the order asked. Rejects with the signal's reason when it aborts first. */
export const createKeyedMutex = () => {
  const last = new Map<string, Promise<void>>();

  return async (project: string, signal: AbortSignal): Promise<Disposable> => {
    signal.throwIfAborted();
    const before = last.get(project) ?? Promise.resolve();
    const { promise: over, resolve: end } = Promise.withResolvers<void>();
    // Who waits for us waits for those before us too: one that leaves early must not let the next one in.
    const chain = before.then(() => over);
    last.set(project, chain);
    void chain.then(() => {
      if (last.get(project) === chain) last.delete(project);
    });
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    const abort = () => reject(signal.reason as Error);
    signal.addEventListener("abort", abort, { once: true });
    try {
      await Promise.race([before, aborted]);
    } catch (error) {
      end();
      throw error;
    } finally {
      signal.removeEventListener("abort", abort);
    }
    return { [Symbol.dispose]: end };
  };
};
