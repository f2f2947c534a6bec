import { setImmediate } from "node:timers";

/**
 * For loops with many short rounds: `await pace()` in each round lets everything else run as soon as the rounds of all
 * such loops together have taken long in this turn.
 */

/** Milliseconds of one turn of the event loop that all such loops together may take. */
const longestMs = 10;

/** When the first of these loops began in this turn. */
let begun: number | undefined;
const waiting: (() => void)[] = [];

/** One loop continues in each turn, in the order in which they came, so that it has the whole time of its turn. */
const nextTurn = (): void => {
  begun = undefined;
  waiting.shift()?.();
  if (waiting.length > 0) beginTurn();
};

const beginTurn = (): void => {
  begun = performance.now();
  setImmediate(nextTurn);
};

export const pace = (): Promise<void> | undefined => {
  if (begun === undefined) beginTurn();
  else if (performance.now() - begun >= longestMs) return new Promise((resolve) => waiting.push(resolve));
  return undefined;
};
