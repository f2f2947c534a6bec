/**
 * A semaphore with priorities for work that loads the machine: tools, checks, landings. A run that waits for a model
 * holds no slot.
 */

export interface Slots {
  /**
   * Waits for a slot: lowest rank first, first come first served within a rank. Disposal gives it back. Rejects with
   * the signal's reason when it aborts first.
   */
  take(rank: number, signal: AbortSignal): Promise<Disposable>;
  free(): number;
  waiting(): number;
}

type Waiter = { rank: number; give: (slot: Disposable) => void };

export const createSlots = (size: number): Slots => {
  if (!Number.isInteger(size) || size < 1) throw new Error(`Expected at least one slot, got ${size}`);
  let free = size;
  /** In the order in which they will be served. */
  const waiters: Waiter[] = [];

  const slot = (): Disposable => {
    let held = true;
    return {
      [Symbol.dispose]() {
        if (!held) return;
        held = false;
        const next = waiters.shift();
        if (next === undefined) free += 1;
        else next.give(slot());
      },
    };
  };

  /** The index at which a waiter of this rank is inserted: after all others of the same rank. */
  const placeOf = (rank: number): number => {
    let [low, high] = [0, waiters.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((waiters[middle]?.rank ?? 0) <= rank) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  return {
    free: () => free,
    waiting: () => waiters.length,

    async take(rank, signal) {
      signal.throwIfAborted();
      if (free > 0) {
        free -= 1;
        return slot();
      }
      return new Promise<Disposable>((resolve, reject) => {
        const leave = () => {
          waiters.splice(waiters.indexOf(waiter), 1);
          reject(signal.reason);
        };
        const waiter: Waiter = {
          rank,
          give(given) {
            signal.removeEventListener("abort", leave);
            resolve(given);
          },
        };
        waiters.splice(placeOf(rank), 0, waiter);
        signal.addEventListener("abort", leave, { once: true });
      });
    },
  };
};
