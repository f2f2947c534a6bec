/** Finds a text in another one in time linear in both, whatever their content. */

/**
 * Length of the prefix that is searched for first, in characters: short enough that the built-in search is as good as
 * linear.
 */
const probeLength = 32;
/** Character comparisons that wrong guesses may cost, in addition to twice the length of the text. */
const mostGuessed = 2 ** 20;

/** In ascending order. `apart`: only matches that do not overlap; otherwise every match. */
export const occurrencesOf = (text: string, part: string, apart = true, most = Number.POSITIVE_INFINITY): number[] => {
  const starts: number[] = [];
  const find = finderOf(part);
  const step = apart ? part.length : 1;
  for (let at = find(text, 0); at >= 0 && starts.length < most; at = find(text, at + step)) starts.push(at);
  return starts;
};

/** -1: not found. */
export const firstIndexOf = (text: string, part: string): number => finderOf(part)(text, 0);

type Find = (text: string, from: number) => number;

/**
 * For calls with ascending offsets in one text. The built-in search would compare all of `part` at each place of a
 * repetitive text, so it only searches for the prefix; after too many wrong guesses a table takes over.
 */
const finderOf = (part: string): Find => {
  if (part.length <= probeLength) return (text, from) => text.indexOf(part, from);
  const probe = part.slice(0, probeLength);
  let guessed = 0;
  let slow: Find | undefined;
  return (text, from) => {
    if (slow !== undefined) return slow(text, from);
    for (let at = text.indexOf(probe, from); at >= 0; at = text.indexOf(probe, at + 1)) {
      guessed += part.length;
      if (guessed > 2 * text.length + mostGuessed) {
        slow = tableFinderOf(part);
        return slow(text, at);
      }
      if (text.startsWith(part, at)) return at;
    }
    return -1;
  };
};

/** Finds a sequence in a list of numbers, such as lines replaced by their numbers. */
export const sequenceStarts = (items: Int32Array, part: Int32Array, most: number): number[] => {
  const starts: number[] = [];
  if (part.length === 0) return starts;
  const borders = bordersOf(part.length, (at) => part[at] ?? 0);
  let matched = 0;
  for (let at = 0; at < items.length && starts.length < most; at += 1) {
    while (matched > 0 && items[at] !== part[matched]) matched = borders[matched - 1] ?? 0;
    if (items[at] === part[matched]) matched += 1;
    if (matched < part.length) continue;
    starts.push(at + 1 - matched);
    matched = borders[matched - 1] ?? 0;
  }
  return starts;
};

/** The Knuth-Morris-Pratt algorithm; calls with ascending offsets read each character once. */
const tableFinderOf = (part: string): Find => {
  const borders = bordersOf(part.length, (at) => part.charCodeAt(at));
  let next = 0;
  let matched = 0;
  return (text, from) => {
    // Overlapping matches continue with the characters matched already.
    if (from > next - matched) {
      next = from;
      matched = 0;
    }
    while (next < text.length) {
      const code = text.charCodeAt(next);
      while (matched > 0 && code !== part.charCodeAt(matched)) matched = borders[matched - 1] ?? 0;
      if (code === part.charCodeAt(matched)) matched += 1;
      next += 1;
      if (matched < part.length) continue;
      const start = next - matched;
      matched = borders[matched - 1] ?? 0;
      return start;
    }
    return -1;
  };
};

/** For each prefix of the part, the length of its longest border: a proper prefix that is also its suffix. */
const bordersOf = (length: number, code: (at: number) => number): Int32Array => {
  const borders = new Int32Array(length);
  for (let at = 1, matched = 0; at < length; at += 1) {
    while (matched > 0 && code(at) !== code(matched)) matched = borders[matched - 1] ?? 0;
    if (code(at) === code(matched)) matched += 1;
    borders[at] = matched;
  }
  return borders;
};

/** Converts ascending offsets to line numbers, counted from 1, in one pass over the text. */
export const lineCounter = (text: string): ((offset: number) => number) => {
  let line = 1;
  let end = text.indexOf("\n");
  return (offset) => {
    while (end >= 0 && end < offset) {
      line += 1;
      end = text.indexOf("\n", end + 1);
    }
    return line;
  };
};
