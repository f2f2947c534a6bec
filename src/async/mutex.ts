/**
 * A lock per key, first come first served; dispose the result to release it. Rejects with the signal's reason when it
 * aborts first.
 */
export const createKeyedMutex = () => {
  const last = new Map<string, Promise<void>>();

  return async (key: string, signal?: AbortSignal): Promise<Disposable> => {
    signal?.throwIfAborted();
    const before = last.get(key) ?? Promise.resolve();
    const { promise: over, resolve: end } = Promise.withResolvers<void>();
    // Callers behind us also wait for everybody before us: if we give up early, the next one must not get in yet.
    const chain = before.then(() => over);
    last.set(key, chain);
    void chain.then(() => {
      if (last.get(key) === chain) last.delete(key);
    });
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    const abort = () => reject(signal?.reason as Error);
    signal?.addEventListener("abort", abort, { once: true });
    try {
      await Promise.race([before, aborted]);
    } catch (error) {
      end();
      throw error;
    } finally {
      signal?.removeEventListener("abort", abort);
    }
    return { [Symbol.dispose]: end };
  };
};
