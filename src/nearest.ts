/** Finds the known word that somebody probably meant. */

/** Edits between two words: letters added, removed, changed or swapped with their neighbour. */
const distance = (one: string, other: string): number => {
  let beforeLast: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let row = 1; row <= one.length; row += 1) {
    const now = [row];
    for (let at = 1; at <= other.length; at += 1) {
      const change = one[row - 1] === other[at - 1] ? 0 : 1;
      let least = Math.min((last[at] ?? 0) + 1, (now[at - 1] ?? 0) + 1, (last[at - 1] ?? 0) + change);
      if (row > 1 && at > 1 && one[row - 1] === other[at - 2] && one[row - 2] === other[at - 1])
        least = Math.min(least, (beforeLast[at - 2] ?? 0) + 1);
      now.push(least);
    }
    beforeLast = last;
    last = now;
  }
  return last[other.length] ?? 0;
};

/** The word of `known` that is nearest to `given`; undefined: none is near. */
export const nearest = (given: string, known: readonly string[]): string | undefined => {
  const word = given.slice(0, 64).toLowerCase();
  const near = known
    .map((each) => ({ each, edits: distance(word, each.slice(0, 64).toLowerCase()) }))
    .filter(({ each, edits }) => edits <= Math.max(1, Math.floor(Math.max(word.length, each.length) / 3)))
    .toSorted((one, other) => one.edits - other.edits);
  return near[0]?.each;
};

/** The nearest word as a question at the end of a message; "" if none is near. */
export const didYouMean = (given: string, known: readonly string[]): string => {
  const word = nearest(given, known);
  return word === undefined ? "" : ` Did you mean ${word}?`;
};
