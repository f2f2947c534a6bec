import { type Listed, mostRows, order, place, plain, table } from "./markdown.ts";
import { type Asking, counted, cutMark, linesOf } from "../step.ts";
import { shellQuote } from "../../../shell-quote.ts";
import { type Link, type Page, pagesOf } from "./page.ts";

/**
 * `dead links`: checks links in Markdown files to files of the project and to headings in them. Links to anywhere else
 * are listed as not checked: the built-in model never uses the network.
 */

/**
 * Lines that can hold a link or an anchor, or that decide whether others do. A heading's text may be on the line before
 * its underline.
 */
const relevant = `{ if ($0 ~ /\\]\\(|\\]:|<[a-zA-Z!]|-->|^ ? ? ?#|^[ \\t>*+0-9.)-]*(\`\`\`|~~~)/) show(FNR, $0); else if ($0 ~ /^ ? ? ?(=+|-+)[ \\t\\r]*$/) { show(FNR - 1, before); show(FNR, $0) } before = $0 }
function show(at, line) { printf "%s\\t%d\\t%s\\n", FILENAME, at, line }`;

export function* links(unless: string | undefined): Asking<Listed | { why: string }> {
  const read = yield* linesOf(
    `{ if git rev-parse --is-inside-work-tree >/dev/null 2>&1\n` +
      `then git ls-files -z -co --exclude-standard -- '*.md' '*.markdown'\n` +
      `else find . -name node_modules -prune -o -type f \\( -name '*.md' -o -name '*.markdown' \\) -print0; fi; } | LC_ALL=C sort -zu |\n` +
      `while IFS= read -r -d '' file; do file=./\${file#./}; if [ -f "$file" ] && [ ! -h "$file" ]; then printf '%s\\0' "$file"; fi; done |\n` +
      `xargs -0 awk ${shellQuote(relevant)} /dev/null`,
  );
  if ("why" in read) return read;
  if (!read.whole) return { why: "the project's Markdown files hold more links and headings than could be read" };
  const pages = pagesOf(read.lines.filter((line) => !line.startsWith(`./${unless}\t`)));
  const all = [...pages].flatMap(([path, { links: found }]) => found.map((link) => ({ path, ...link })));
  const judged = all.map((link) => ({ ...link, ...targetOf(link) }));

  const paths = [...new Set(judged.flatMap(({ to }) => (to === undefined || to === "" ? [] : [to])))].toSorted(order);
  const there = yield* existing(paths);
  if ("why" in there) return there;

  const dead: string[][] = [];
  const skipped: string[][] = [];
  for (const { path, line, target, to, anchor, why } of judged.toSorted(
    (left, right) => order(left.path, right.path) || left.line - right.line,
  )) {
    const row = [place(path, line), plain(target)];
    if (to === undefined) skipped.push([...row, why ?? ""]);
    else if (to !== "" && !there.has(to)) dead.push([...row, "nothing is there"]);
    else if (anchor !== "" && missesAnchor(pages.get(to) ?? (isPage(to) ? nothing : undefined), anchor))
      dead.push([...row, `${place(to, undefined)} has no such heading`]);
  }
  const cut = read.lines.filter((line) => line.endsWith(cutMark)).length;
  const summary =
    `${dead.length === 0 ? "No" : dead.length} dead ${dead.length === 1 ? "link" : "links"} among ${all.length - skipped.length} in ${counted(pages.size, "Markdown file")}; ${skipped.length} not checked.` +
    (cut === 0 ? "" : ` Of ${counted(cut, "line")} longer than 6,000 bytes only the beginning was read.`);
  const lines = ["# Dead links", "", summary];
  if (dead.length > 0) lines.push("", ...table(["Where", "Link", "Why"], dead));
  if (skipped.length > 0)
    lines.push("", "## Not checked", "", ...table(["Where", "Link", "Why"], skipped.slice(0, mostRows)));
  return { lines, summary };
}

const isPage = (path: string): boolean => /\.(?:md|markdown)$/i.test(path);
const nothing: Page = { links: [], anchors: new Set() };

/** Only Markdown pages have headings; `#L10` of a source file is a feature of the viewer. */
const missesAnchor = (page: Page | undefined, anchor: string): boolean =>
  page !== undefined && anchor.toLowerCase() !== "top" && !page.anchors.has(anchor.toLowerCase());

/** `to`: a path from the project's root; undefined: the target is not in the project. */
const targetOf = ({
  path,
  target,
}: { path: string } & Link): { to: string | undefined; anchor: string; why?: string } => {
  if (/^(?:[a-z][a-z0-9+.-]*:|\/\/)/i.test(target)) return { to: undefined, anchor: "", why: "not of this project" };
  const hash = target.indexOf("#");
  const raw = (hash < 0 ? target : target.slice(0, hash)).split("?", 1).join("");
  const anchor = hash < 0 ? "" : decoded(target.slice(hash + 1));
  if (raw === "") return { to: path, anchor };
  const parts: string[] = raw.startsWith("/") ? [] : path.split("/").slice(0, -1);
  for (const part of decoded(raw).split("/"))
    if (part === "..") {
      if (parts.pop() === undefined) return { to: undefined, anchor: "", why: "outside the project" };
    } else if (part !== "" && part !== ".") parts.push(part);
  return { to: parts.join("/"), anchor };
};

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

const batchChars = 40_000;

function* existing(paths: readonly string[]): Asking<Set<string> | { why: string }> {
  const there = new Set<string>();
  let batch: string[] = [];
  let size = 0;
  for (const [at, path] of paths.entries()) {
    batch.push(path);
    size += shellQuote(path).length + 3;
    if (size < batchChars && at < paths.length - 1) continue;
    const words = batch.map((name) => shellQuote(`./${name.replaceAll("\0", "\uFFFD")}`)).join(" ");
    const read = yield* linesOf(`for file in ${words}; do if [ -e "$file" ]; then echo y; else echo n; fi; done`);
    if ("why" in read) return read;
    for (const [index, name] of batch.entries()) if (read.lines[index] === "y") there.add(name);
    batch = [];
    size = 0;
  }
  return there;
}
