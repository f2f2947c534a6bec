import { setImmediate } from "node:timers/promises";

/** Milliseconds that one piece of work may take before other work gets its turn. */
const longestMs = 10;

/**
 * For loops whose rounds are short and many: `await pace()` in each lets everything else run as soon as the rounds
 * since the last time took long together.
 */
export const createPace = (ms = longestMs): (() => Promise<void> | undefined) => {
  let since = performance.now();
  return () => {
    if (performance.now() - since < ms) return undefined;
    return setImmediate().then(() => {
      since = performance.now();
    });
  };
};
