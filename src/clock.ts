import { uptime } from "node:os";

/**
 * The time of a service: the machine's clock as it was at the start, and from then on what has passed. A machine's
 * clock that is set, forth or back, changes nothing of it, so what waits is due after the span that it was to wait, and
 * a budget counts what was worked. What others compare with clocks of their own (signatures, dates in answers of
 * providers) takes the machine's clock.
 */
export type Clock = () => Date;

export const createClock = ({ wall = Date.now, passed = createPassed() } = {}): Clock => {
  const start = wall() - passed();
  return () => new Date(Math.round(start + passed()));
};

/**
 * Milliseconds that have passed on the machine, time asleep included, which `performance.now` leaves out. The system
 * tells those in hundredths of a second and for the price of a file, so it is asked once a second, and followed only
 * where the machine must have slept.
 */
export const createPassed = (awake = () => performance.now(), all = () => uptime() * 1000): (() => number) => {
  let asleep = all() - awake();
  let asked = awake();
  return () => {
    const now = awake();
    if (now - asked > 1000) {
      asked = now;
      const found = all() - now;
      if (found - asleep > 2000) asleep = found;
    }
    return now + asleep;
  };
};
