import { inWords } from "./title.ts";

/** The message of the commit that a Task lands: the agent's description of the whole change, and who made it. */

export type Description = { title: string; body: string };

/** In characters. */
export const longestTitle = 72;
const lineWidth = 72;

/** In characters. */
const longestBody = 4000;

const mark = "commit:";

/**
 * Reads the commit message in an agent's final text: the title follows the last line-initial `Commit:`, the body is
 * below it. `report`: the text before it, which is for people.
 */
export const readEnd = (text: string): { report: string; commit: Description | undefined } => {
  const lines = text.split("\n");
  const at = lines.findLastIndex((line) => plainOf(line).toLowerCase().startsWith(mark));
  if (at < 0) return { report: text, commit: undefined };
  const behind = lines.slice(at + 1);
  const first = plainOf(plainOf(lines[at] ?? "").slice(mark.length));
  // Some models put the title on the next line, or everything into a code block.
  const from = first === "" ? behind.findIndex((line) => plainOf(line) !== "" && !isFence(line)) : -1;
  const title = oneLine(first === "" ? plainOf(behind[from] ?? "") : first);
  const body = behind
    .slice(from + 1)
    .filter((line) => !isFence(line))
    .join("\n")
    .trim();
  const report = lines
    .slice(0, at)
    .join("\n")
    .trim()
    .replace(/\n```$/, "")
    .trim();
  return { report, commit: title === "" ? undefined : { title, body } };
};

const isFence = (line: string): boolean => line.trim().startsWith("```");

/** A line without the decoration that models put around it. */
const plainOf = (line: string): string => withoutEnd(line.replace(/^[\s#>*_]+/, "").trimEnd(), "*_ ");

/** A text without these characters at its end. */
const withoutEnd = (text: string, characters: string): string => {
  let end = text.length;
  while (end > 0 && characters.includes(text[end - 1] ?? "")) end -= 1;
  return text.slice(0, end);
};

const oneLine = (text: string): string => text.replaceAll(/\s+/g, " ").trim();

/** A title in whole words, at most 72 characters. */
export const fitTitle = (text: string): string => {
  const title = withoutEnd(oneLine(text), ".…");
  return inWords(title, longestTitle);
};

/** The message, with the trailers that identify who made the commit. */
export const commitMessage = (
  { title, body }: Description,
  trailers: readonly (readonly [name: string, value: string])[],
): string =>
  [
    fitTitle(title) || "Change files",
    wrap(body.slice(0, longestBody)),
    trailers.map(([name, value]) => `${name}: ${oneLine(value)}`).join("\n"),
  ]
    .filter((part) => part !== "")
    .join("\n\n")
    .concat("\n");

/** Wraps paragraphs and list items at 72 characters; indented lines stay as they are. */
export const wrap = (text: string): string =>
  text
    .replaceAll("\r", "")
    .split(/\n[ \t]*\n/)
    .map((paragraph) => itemsIn(paragraph).map(wrapItem).join("\n").trimEnd())
    .filter((paragraph) => paragraph.trim() !== "")
    .join("\n\n");

const itemMark = /^(?:[-*+]|\d{1,3}[.)]) /;
const isVerbatim = (line: string): boolean => /^(?: {4}|\t)/.test(line);

/** Joins the lines of a paragraph that belong together, such as those of one list item. */
const itemsIn = (paragraph: string): string[] => {
  const items: string[] = [];
  for (const line of paragraph.split("\n")) {
    const last = items.at(-1);
    const own = last === undefined || isVerbatim(line) || isVerbatim(last) || itemMark.test(line.trim());
    if (own) items.push(isVerbatim(line) ? line.trimEnd() : line.trim());
    else items[items.length - 1] = `${last} ${line.trim()}`;
  }
  return items;
};

const wrapItem = (item: string): string => {
  if (isVerbatim(item)) return item;
  const indent = itemMark.test(item) ? "  " : "";
  const lines: string[] = [];
  let line = "";
  for (const word of item.split(/\s+/)) {
    if (line.trim() !== "" && line.length + 1 + word.length > lineWidth) {
      lines.push(line);
      line = `${indent}${word}`;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line].join("\n");
};

/** Lists at most ten paths by name, and the number of the others. */
export const namedPaths = (paths: readonly string[]): string =>
  paths.length <= 10 ? paths.join(", ") : `${paths.slice(0, 10).join(", ")} and ${paths.length - 10} more`;
