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

/** Milliseconds of `sameWork` on the idle machine for which the suite's bounds were written. */
const thereMs = 12;

/** How many times slower this machine is now than that one, at least 1: what a bound in milliseconds is multiplied by. */
export const slowness = (): number => Math.max(1, cpuMs(sameWork, 3) / thereMs);

/**
 * Milliseconds that the work would take on that machine, at its best of some rounds, of which the first that takes less
 * than `enough` is the last.
 */
export const pacedMs = (work: () => unknown, enough: number, rounds = 7): number => {
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds && best >= enough; round += 1) best = Math.min(best, cpuMs(work, 1) / slowness());
  return best;
};
