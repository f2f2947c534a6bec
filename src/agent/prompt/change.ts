/**
 * Finds where a system prompt differs from an earlier one of the same agent: each changed line with the headings above
 * it.
 */

type Line = {
  text: string;
  /** The headings of its paragraph and, in a nested list, of that list; the outermost first. */
  under: readonly string[];
};

/**
 * The changes, worded for the model; undefined: there are none. The project's own words must not be part of either
 * prompt.
 */
export const promptChange = (before: string, now: string): string | undefined => {
  const [told, tells] = [linesOf(before), linesOf(now)];
  const known = new Set(told.map(({ text }) => text));
  const held = new Set(tells.map(({ text }) => text));
  const added = tells.filter(({ text }) => !known.has(text));
  const gone = told.filter((line) => !held.has(line.text) && !added.some((other) => isInPlaceOf(other, line)));
  // A nested list is one statement and is shown whole: its changed lines alone would be taken for all of it.
  const lists = new Set([...added, ...gone].flatMap(({ under }) => under[1] ?? []));
  const shown = tells.filter(
    (line) => added.includes(line) || (line.under[1] !== undefined && lists.has(line.under[1])),
  );
  const parts = [
    ...(shown.length === 0 ? [] : [`Of what you were told, this is different now:\n${underHeadings(shown)}`]),
    ...(gone.length === 0 ? [] : [`Of what you were told, this holds no more:\n${underHeadings(gone)}`]),
  ];
  return parts.length === 0 ? undefined : parts.join("\n\n");
};

const item = /^( *)- /;

const linesOf = (prompt: string): Line[] =>
  prompt.split(/\n{2,}/).flatMap((paragraph) => {
    let heading: string | undefined;
    let parent: string | undefined;
    return paragraph.split("\n").flatMap((text): Line[] => {
      if (text.trim() === "") return [];
      const indent = item.exec(text)?.[1]?.length;
      if (indent === undefined) {
        [heading, parent] = [text, undefined];
        return [{ text, under: [] }];
      }
      const above = [heading ?? "", ...(indent > 0 && parent !== undefined ? [parent] : [])];
      if (indent === 0) parent = text;
      return [{ text, under: above }];
    });
  });

/**
 * Whether `line` restates what `old` said, such as another commit that the work begins at: that the old line no longer
 * holds then goes without saying.
 */
const isInPlaceOf = (line: Line, old: Line): boolean =>
  line.under.length === 1 &&
  old.under.length === 1 &&
  line.under[0] === old.under[0] &&
  subjectOf(line.text) === subjectOf(old.text);

/** The text before a line's colon, otherwise the line's first words. */
const subjectOf = (text: string): string =>
  /^- ([^:`]{1,60}):/.exec(text)?.[1] ?? text.split(" ").slice(0, 4).join(" ");

/** The lines with their headings; each heading once, before its first line. */
const underHeadings = (lines: readonly Line[]): string => {
  const texts: string[] = [];
  let open: readonly string[] = [];
  for (const { text, under } of lines) {
    under.forEach((heading, at) => {
      if (heading !== "" && open[at] !== heading) texts.push(heading);
    });
    texts.push(text);
    open = under.length === 0 ? [text] : under.length === 1 ? [under[0] ?? "", text] : under;
  }
  return texts.join("\n");
};
