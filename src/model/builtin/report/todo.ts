import { type Listed, counts, order, place, plain, table } from "./markdown.ts";
import { type Asking, counted, linesOf } from "../step.ts";
import { shellQuote } from "../../../shell-quote.ts";

/**
 * `list TODOs`: TODO, FIXME, HACK and XXX in comments. Decided line by line: a comment sign outside of quotes precedes
 * the marker, or the marker begins the line, as inside a longer comment.
 */

type Found = { path: string; line: number; marker: string; text: string };

/** `unless`: the path of the report itself, which is skipped. */
export function* todos(unless: string | undefined): Asking<Listed | { why: string }> {
  const paths = unless === undefined ? "." : `. ${shellQuote(`:(exclude,literal)${unless}`)}`;
  const read = yield* linesOf(
    `if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then how=--untracked; else how='--no-index --exclude-standard'; fi\n` +
      `{ git -c grep.lineNumber=false grep $how -nIzwE --no-color -e 'TODO|FIXME|HACK|XXX' -- ${paths} || [ $? -eq 1 ]; } | tr '\\000' '\\t'`,
  );
  if ("why" in read) return read;
  const found = read.lines
    .flatMap((line): Found[] => {
      const [, path, number, text] = /^(.+?)\t(\d+)\t(.*)$/.exec(line) ?? [];
      if (path === undefined || text === undefined) return [];
      return markersIn(path, text).map((marker) => ({
        path,
        line: Number(number),
        marker: marker.name,
        text: marker.text,
      }));
    })
    .toSorted((left, right) => order(left.path, right.path) || left.line - right.line);
  const files = new Set(found.map(({ path }) => path)).size;
  const kinds = counts(found.map(({ marker }) => marker)).map(([name, count]) => `${name} ${count}`);
  const summary =
    found.length === 0
      ? "No TODO, FIXME, HACK or XXX stands in a comment."
      : `${counted(found.length, "marker")} in ${counted(files, "file")}: ${kinds.join(", ")}.`;
  const rest = read.whole ? [] : ["", "There are more than could be read; these are the first."];
  const rows = found.map(({ path, line, marker, text }) => [place(path, line), marker, plain(text)]);
  return {
    lines: [
      "# TODOs",
      "",
      summary,
      ...rest,
      ...(rows.length === 0 ? [] : ["", ...table(["Where", "Marker", "Text"], rows)]),
    ],
    summary,
  };
}

/** Comment signs by file extension; files of any other type have those of most languages. */
const openings: [files: RegExp, signs: RegExp][] = [
  [/\.(?:md|markdown|html?|xml|vue|svelte|svg)$/i, /<!--|\/\/|\/\*|(?:^|\s)\*(?=\s)/g],
  [/\.(?:sql|lua|hs|elm|adb|ads)$/i, /--|\/\*|(?:^|\s)\*(?=\s)/g],
  [/\.(?:lisp|clj[sc]?|el|scm|asm|s|ini)$/i, /;|#/g],
  [/\.(?:tex|erl|m)$/i, /%/g],
  [/\.(?:vb|bas|vim)$/i, /'|"/g],
  [
    /\.(?:[cm]?[jt]sx?|java|kt|kts|scala|go|rs|c|h|cc|cpp|hpp|cs|swift|dart|s?css|less|proto|groovy|zig)$/i,
    /\/\/|\/\*|\{\/\*|^\s*\*/g,
  ],
];
const usual = /#|\/\/|\/\*|<!--|--|(?:^|\s)\*(?=\s)|"""|'''/g;

const markersIn = (path: string, text: string): { name: string; text: string }[] => {
  const signs = openings.find(([files]) => files.test(path))?.[1] ?? usual;
  const start = [...text.matchAll(signs)].find(({ index }) => outsideQuotes(text, index))?.index;
  const heads = /^[\s*#>;%/-]*(?:(?:[-*+]|\d+[.)])\s+)?(?:\[[ x]\]\s+)?(TODO|FIXME|HACK|XXX)(?=\s*[:(]|\s+-)/.exec(
    text,
  );
  const from = start ?? (heads === null ? undefined : 0);
  if (from === undefined) return [];
  const [first] = text.slice(from).matchAll(/(?<!\w)(TODO|FIXME|HACK|XXX)(?!\w)/g);
  if (first?.[1] === undefined) return [];
  const said = text
    .slice(from + first.index)
    .trimEnd()
    .replace(/(?:\*\/\}?|-->)$/, "");
  return [{ name: first[1], text: said }];
};

/** An apostrophe inside a word opens no quote; a sign after a colon, as in `https://`, opens no comment. */
const outsideQuotes = (text: string, at: number): boolean => {
  if (text[at - 1] === ":" && text.startsWith("//", at)) return false;
  if (text[at] === "#" && at > 0 && !/\s/.test(text[at - 1] ?? "")) return false;
  let open = "";
  for (let index = 0; index < at; index += 1) {
    const sign = text[index] ?? "";
    if (sign === "\\") index += 1;
    else if (open !== "") open = sign === open ? "" : open;
    else if (sign === '"' || sign === "`" || (sign === "'" && !/\w/.test(text[index - 1] ?? ""))) open = sign;
  }
  return open === "";
};
