/** Places in the project that an answer names as its source, as file:line. */

export type Place = { path: string; line: number };

/** How many characters of an answer are searched, and how many places are used. */
const longest = 64 * 1024;
const most = 200;

const place =
  /(?<![\w/.:@+-])((?:[\w@.+-]+\/)*[\w@+-][\w@.+-]*\.[a-z]\w{0,9}):(\d{1,7})(?:[-–](\d{1,7}))?(?![\w.]*\/)/gi;

/** The places that a text cites, each once; of a range of lines, the last one. */
export const citedPlaces = (text: string): Place[] => {
  const found = new Map<string, Place>();
  for (const [, path = "", from = "", to = from] of text.slice(0, longest).matchAll(place)) {
    const line = Math.max(Number(from), Number(to));
    if (found.size < most) found.set(`${path}:${line}`, { path: path.replace(/^(\.\/)+/, ""), line });
  }
  return [...found.values()];
};

/** Whether a call named the file, or a result did. `calls`: the arguments of calls; `results`: their outputs. */
export const isSeen = (path: string, calls: readonly string[], results: readonly string[]): boolean => {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return calls.some((input) => input.includes(name)) || results.some((output) => output.includes(path));
};
