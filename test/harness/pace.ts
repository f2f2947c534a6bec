/** Bounds on processor time, fair on a machine that is slow or shared. */

/** Milliseconds of this thread's processor time that the work takes, at its best of some rounds. */
export const cpuMs = (work: () => unknown, rounds = 5): number =>
  Math.min(
    ...Array.from({ length: rounds }, () => {
      const begun = process.threadCpuUsage();
      work();
      const { user, system } = process.threadCpuUsage(begun);
      return (user + system) / 1000;
    }),
  );

/** Three megabytes of letters, looked through by an expression: what most of the bounded work is like. */
const sameWork = (): number => {
  let found = 0;
  for (let round = 0; round < 30; round += 1)
    found += `${"abcdefgh ".repeat(11_000)}${round}`.match(/[a-h]+(?= )/g)?.length ?? 0;
  return found;
};

/** The same, and four megabytes that nobody had before: on some virtual machines a new page takes ten times as long. */
const mixedWork = (): unknown => [sameWork(), Buffer.alloc(4 * 1024 * 1024).fill(1)];

/** Milliseconds of `mixedWork` on the idle machine for which the suite's bounds were written. */
const thereMs = 14;

/**
 * How many times slower this machine is now than that one, at least 1: what a bound in milliseconds is multiplied by.
 */
export const slowness = (): number => Math.max(1, cpuMs(mixedWork, 3) / thereMs);

/** A bound on the clock in milliseconds, as fair as it is on that machine when others want this one's processor too. */
export const fairMs = (ms: number): number => {
  const begun = performance.now();
  for (let round = 0; round < 3; round += 1) mixedWork();
  return ms * Math.max(slowness(), (performance.now() - begun) / 3 / thereMs);
};

/** Milliseconds of processor time of the longest turn of the event loop meanwhile, as they would be on that machine. */
export const longestTurnMs = async (work: () => Promise<unknown>): Promise<number> => {
  let most = 0;
  const done = new AbortController();
  const turns = (async () => {
    while (!done.signal.aborted) {
      const begun = process.threadCpuUsage();
      await new Promise((resolve) => setTimeout(resolve, 1));
      const { user, system } = process.threadCpuUsage(begun);
      most = Math.max(most, (user + system) / 1000);
    }
  })();
  await work();
  done.abort();
  await turns;
  return most / slowness();
};

/**
 * Milliseconds that the work would take on that machine, at its best of some rounds, of which the first that takes less
 * than `enough` is the last.
 */
export const pacedMs = (work: () => unknown, enough: number, rounds = 7): number => {
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds && best >= enough; round += 1) best = Math.min(best, cpuMs(work, 1) / slowness());
  return best;
};
