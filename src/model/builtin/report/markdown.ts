import { cutMark } from "../step.ts";

/** Markdown for lists: deterministic, bounded, and safe against anything in a listed text. */

/** `summary`: what the report says next to the file's name. */
export type Listed = { lines: string[]; summary: string };

export const mostRows = 2000;
const cellChars = 240;

/** The text on one line that Markdown renders literally: no cell ends early, no link, image or tag takes effect. */
export const plain = (text: string): string => {
  const line = text
    .replace(cutMark, "…")
    .replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\uFFFD\s]+/gu, " ")
    .trim();
  const points = Array.from(line);
  const cut = points.length > cellChars ? `${points.slice(0, cellChars - 1).join("")}…` : line;
  return cut.replaceAll(/[\\`|<>[\]*_~&]/g, (sign) => `\\${sign}`);
};

/** `path:line`; underscores between letters stay unescaped, so that paths are readable. */
export const place = (path: string, line: number | undefined): string =>
  `${plain(path).replaceAll(/(?<=[\p{L}\p{N}])\\_(?=[\p{L}\p{N}])/gu, "_")}${line === undefined ? "" : `:${line}`}`;

/** Cells are Markdown already. */
export const table = (head: readonly string[], rows: readonly (readonly string[])[]): string[] => {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const more = rows.length - mostRows;
  return [
    line(head),
    `|${head.map(() => "---|").join("")}`,
    ...rows.slice(0, mostRows).map(line),
    ...(more > 0 ? ["", `${more} more are not shown.`] : []),
  ];
};

/** Compares by code points, so that every machine sorts alike. */
export const order = (left: string, right: string): number => (left < right ? -1 : left > right ? 1 : 0);

export const counts = (names: readonly string[]): [name: string, count: number][] => {
  const found = new Map<string, number>();
  for (const name of names) found.set(name, (found.get(name) ?? 0) + 1);
  return [...found].toSorted(([a, m], [b, n]) => n - m || order(a, b));
};
