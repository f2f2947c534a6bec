/** How Tasks wait for a directory in which another one works in place: in memory, at no cost to the store. */

type Take = () => Disposable | undefined;
type Waiter = { taskID: string; directory: string; rank: number; take: Take; go: (hold: Disposable) => void };

const waiters = new Set<Waiter>();
let timer: NodeJS.Timeout | undefined;

/** When another service of the machine leaves a directory, nobody here is told. */
const lookMs = 500;

const handingOn = (hold: Disposable): Disposable => ({
  [Symbol.dispose]() {
    hold[Symbol.dispose]();
    serve();
  },
});

/** A fault is of the moment: it is tried again at the next look. */
const takenBy = ({ take }: Waiter): Disposable | undefined => {
  try {
    return take();
  } catch {
    return undefined;
  }
};

/** Lets those in whose directories nobody works now, lowest rank first. */
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

/** Takes the directory if nobody works there now; whoever leaves it hands it on. */
export const tryDirectory = (take: Take): Disposable | undefined => {
  const hold = take();
  return hold && handingOn(hold);
};

/** Waits for the directory. Resolves to undefined when the signal aborts. */
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

/** How many run before this Task in its directory, if it waits for one. */
export const aheadInDirectory = (taskID: string): number | undefined => {
  const own = [...waiters].find((waiter) => waiter.taskID === taskID);
  if (own === undefined) return undefined;
  return 1 + [...waiters].filter(({ directory, rank }) => rank < own.rank && directory === own.directory).length;
};
