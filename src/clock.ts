import { uptime } from "node:os";

/**
 * The time of a service: the machine's clock at the start, plus the time that has passed since. Setting the machine's
 * clock forward or back does not change it, so that whatever waits is due after the span that it was to wait, and a
 * budget counts the time worked. Times that others compare with clocks of their own (signatures, dates in answers of
 * providers) are those of the machine's clock.
 */
export type Clock = () => Date;

export const createClock = ({ wall = Date.now, passed = createPassed() } = {}): Clock => {
  const start = wall() - passed();
  return () => new Date(Math.round(start + passed()));
};

/**
 * Measures the milliseconds that have passed on the machine, including time asleep, which `performance.now` leaves out.
 * The system reports it in hundredths of a second and at the price of reading a file, so it is asked once a second, and
 * followed only if the machine must have slept.
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
