import { posix } from "node:path";

/** The findings of checkers: read from what they print, and compared to tell which are new. */

/** `key`: stays the same as long as only lines move. */
export type Finding = { path: string; line: number; column: number; text: string; key: string };

const mostLine = 2000;
const longestText = 300;
const mostFindings = 500;

/** `path(line,column): text`, as TypeScript's compilers print it. */
const inParentheses = /^(.{1,500}?)\((\d{1,9}),(\d{1,9})\): (.*)$/;
/** `path:line:column: text`, as most other programs print it; the column may be missing. */
const withColons = /^(?:vet: )?([^:]{1,500}):(\d{1,9})(?::(\d{1,9}))?(?::| -) ?(.*)$/;

/** The findings in a checker's output, up to a bound. `folder`: where the checker ran, relative to the root. */
export const findingsIn = (text: string, folder: string, root: string): Finding[] => {
  const found: Finding[] = [];
  for (const raw of text.split("\n")) {
    if (raw.length > mostLine) continue;
    const line = raw.trim();
    const [, file, row, column, said] = inParentheses.exec(line) ?? withColons.exec(line) ?? [];
    if (file === undefined || said === undefined || said === "" || said.startsWith("note:")) continue;
    const path = relative(file, folder, root);
    if (path === undefined) continue;
    found.push(finding(path, Number(row), Number(column ?? 1), said));
    if (found.length >= mostFindings) break;
  }
  return found;
};

/** The path relative to the root; undefined: it is outside. */
export const relative = (file: string, folder: string, root: string): string | undefined => {
  const path = file.startsWith("/") ? (file.startsWith(`${root}/`) ? file.slice(root.length + 1) : "..") : file;
  const joined = posix.normalize(file.startsWith("/") ? path : posix.join(folder, path));
  return joined.startsWith("..") ? undefined : joined;
};

export const finding = (path: string, line: number, column: number, said: string): Finding => {
  const text = said.slice(0, longestText);
  return { path, line, column, text, key: `${path}\n${text}` };
};

/** How often each key is there. */
export type Known = ReadonlyMap<string, number>;

export const knownOf = (findings: readonly Finding[]): Map<string, number> => {
  const known = new Map<string, number>();
  for (const { key } of findings) known.set(key, (known.get(key) ?? 0) + 1);
  return known;
};

/** The findings that are there more often than `known` says. */
export const newFindings = (findings: readonly Finding[], known: Known): Finding[] => {
  const left = new Map(known);
  return findings.filter(({ key }) => {
    const count = left.get(key) ?? 0;
    left.set(key, count - 1);
    return count <= 0;
  });
};

/** The larger count of each key. */
export const maxCounts = (one: Known, other: Known): Map<string, number> => {
  const all = new Map(one);
  for (const [key, count] of other) all.set(key, Math.max(count, all.get(key) ?? 0));
  return all;
};

/** The smaller count of each key. */
export const minCounts = (one: Known, other: Known): Map<string, number> =>
  new Map(
    [...one].flatMap(([key, count]): [string, number][] => {
      const both = Math.min(count, other.get(key) ?? 0);
      return both > 0 ? [[key, both]] : [];
    }),
  );

const mostTold = 8;

/** The findings in words for a model, those in `touched` files first. */
export const findingsText = (findings: readonly Finding[], touched: ReadonlySet<string>): string => {
  const sorted = findings.toSorted((one, other) => Number(touched.has(other.path)) - Number(touched.has(one.path)));
  const lines = sorted.slice(0, mostTold).map(({ path, line, column, text }) => `${path}:${line}:${column} ${text}`);
  const more = findings.length - lines.length;
  return [...lines, ...(more > 0 ? [`and ${more} more`] : [])].join("\n");
};
