/**
 * The queue of Tasks that wait for a directory in which another Task works in place. It is kept in memory and costs the
 * store nothing.
 */

type Take = () => Disposable | undefined;
type Waiter = { taskID: string; directory: string; rank: number; take: Take; go: (hold: Disposable) => void };

const waiters = new Set<Waiter>();
let timer: NodeJS.Timeout | undefined;

/** Polling interval: nobody tells this process when another service on the machine leaves a directory. */
const lookMs = 500;

const handingOn = (hold: Disposable): Disposable => ({
  [Symbol.dispose]() {
    hold[Symbol.dispose]();
    serve();
  },
});

/** An error counts as "not free": it may be temporary, and the next poll tries again. */
const takenBy = ({ take }: Waiter): Disposable | undefined => {
  try {
    return take();
  } catch {
    return undefined;
  }
};

/** Hands each free directory to its waiter with the lowest rank. */
const serve = (): void => {
  const taken = new Set<string>();
  for (const waiter of [...waiters].sort((one, other) => one.rank - other.rank)) {
    if (taken.has(waiter.directory)) continue;
    taken.add(waiter.directory);
    const hold = takenBy(waiter);
    if (hold === undefined) continue;
    waiters.delete(waiter);
    waiter.go(handingOn(hold));
  }
  if (waiters.size > 0) return;
  clearInterval(timer);
  timer = undefined;
};

/**
 * Takes the directory if it is free. Disposing the result hands the directory to the next waiter. undefined: it is in
 * use.
 */
export const tryDirectory = (take: Take): Disposable | undefined => {
  const hold = take();
  return hold && handingOn(hold);
};

/** Waits until the directory is free. Resolves to undefined when the signal aborts. */
export const waitForDirectory = (wanted: Omit<Waiter, "go">, signal: AbortSignal): Promise<Disposable | undefined> =>
  new Promise((resolve) => {
    if (signal.aborted) return resolve(undefined);
    const leave = () => {
      waiters.delete(waiter);
      resolve(undefined);
    };
    const waiter: Waiter = {
      ...wanted,
      go(hold) {
        signal.removeEventListener("abort", leave);
        resolve(hold);
      },
    };
    waiters.add(waiter);
    timer ??= setInterval(serve, lookMs).unref();
    signal.addEventListener("abort", leave, { once: true });
  });

/**
 * How many Tasks run in its directory before this one, counting the one at work; undefined: it waits for no directory.
 */
export const aheadInDirectory = (taskID: string): number | undefined => {
  const own = [...waiters].find((waiter) => waiter.taskID === taskID);
  if (own === undefined) return undefined;
  return 1 + [...waiters].filter(({ directory, rank }) => rank < own.rank && directory === own.directory).length;
};
