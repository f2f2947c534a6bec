/**
 * For loops whose rounds are short and many: `await pace()` in each lets everything else run as soon as the rounds of
 * all such loops since the last time took long together.
 */

/** Milliseconds of one turn of the event loop that all such loops may take together. */
const longestMs = 10;

/** When the first of them began in this turn. */
let begun: number | undefined;
const waiting: (() => void)[] = [];

/** One goes on in each turn, in the order in which they came: each has the whole time of its turn. */
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
