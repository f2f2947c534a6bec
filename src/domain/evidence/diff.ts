/** The diff of a change as its reviewer sees it: every file on one line, and the text of files that people write. */

/** One file of a diff. `head`: its lines before the first hunk. */
export type FileDiff = {
  path: string;
  /** The earlier path, if the file was moved or copied; null otherwise. */
  from: string | null;
  how: "new" | "deleted" | "changed";
  insertions: number;
  deletions: number;
  binary: boolean;
  /** The length of its longest changed or context line, in characters. */
  longest: number;
  head: string;
  hunks: string[];
  /** The number of lines of hunks that are not kept, because no reviewer is ever shown so many. */
  dropped: number;
};

/** How many characters of one file's hunks are kept. */
const keptChars = 100_000;

/** The files of a unified diff as Git writes it. */
export const readDiff = (diff: string): FileDiff[] => {
  const files: FileDiff[] = [];
  const mark = "diff --git ";
  let at = diff.startsWith(mark) ? 0 : diff.indexOf(`\n${mark}`) + 1;
  if (at === 0 && !diff.startsWith(mark)) return files;
  while (at < diff.length) {
    const next = diff.indexOf(`\n${mark}`, at);
    const end = next < 0 ? diff.length : next + 1;
    files.push(readFile(diff.slice(at, end)));
    at = end;
  }
  return files;
};

const readFile = (text: string): FileDiff => {
  const begin = text.indexOf("\n@@ ") + 1;
  const head = begin === 0 ? text : text.slice(0, begin);
  const file: FileDiff = { ...readHead(head), insertions: 0, deletions: 0, longest: 0, head, hunks: [], dropped: 0 };
  let kept = 0;
  for (let at = begin === 0 ? text.length : begin; at < text.length; ) {
    const next = text.indexOf("\n@@ ", at);
    const end = next < 0 ? text.length : next + 1;
    const lines = countLines(text, at, end, file);
    const room = keptChars - kept;
    if (room > 0) file.hunks.push(text.slice(at, Math.min(end, at + room)));
    if (end - at > room) file.dropped += room > 0 ? countIn(text, at + room, end) : lines;
    kept += end - at;
    at = end;
  }
  return file;
};

const countIn = (text: string, from: number, to: number): number => {
  let count = 0;
  for (let at = text.indexOf("\n", from); at >= 0 && at < to; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
};

/** Adds the lines of a hunk to the counts of its file; returns how many there are. */
const countLines = (text: string, from: number, to: number, file: FileDiff): number => {
  let count = 0;
  for (let at = text.indexOf("\n", from) + 1; at > 0 && at < to; ) {
    const newline = text.indexOf("\n", at);
    const end = newline < 0 ? to : newline;
    const sign = text[at];
    if (sign === "+") file.insertions += 1;
    if (sign === "-") file.deletions += 1;
    file.longest = Math.max(file.longest, end - at - 1);
    count += 1;
    at = end + 1;
  }
  return count;
};

const readHead = (head: string): Pick<FileDiff, "path" | "from" | "how" | "binary"> => {
  const lines = head.split("\n");
  const after = (start: string): string | undefined =>
    lines.find((line) => line.startsWith(start))?.slice(start.length);
  const side = (start: string, prefix: string): string | undefined => {
    const name = after(start);
    const path = name === undefined ? undefined : nameOf(name);
    return path?.startsWith(prefix) === true ? path.slice(prefix.length) : undefined;
  };
  const moved = after("rename from ") ?? after("copy from ");
  const to = after("rename to ") ?? after("copy to ");
  const path =
    (to === undefined ? undefined : nameOf(to)) ??
    side("+++ ", "b/") ??
    side("--- ", "a/") ??
    pathInFirst(lines[0] ?? "");
  const how = lines.some((line) => line.startsWith("new file mode"))
    ? "new"
    : lines.some((line) => line.startsWith("deleted file mode"))
      ? "deleted"
      : "changed";
  return {
    path,
    from: moved === undefined ? null : nameOf(moved),
    how,
    binary: lines.some((line) => line.startsWith("Binary files ") || line === "GIT binary patch"),
  };
};

/** The path in `diff --git a/x b/x`, if no other line names it: both halves are the same. */
const pathInFirst = (line: string): string => {
  const both = line.slice("diff --git ".length);
  if (both.startsWith('"')) return nameOf(both.slice(both.indexOf(' "') + 1)).slice(2);
  return both.slice((both.length + 1) / 2 + 2);
};

const escaped: Readonly<Record<string, number>> = { a: 7, b: 8, t: 9, n: 10, v: 11, f: 12, r: 13, '"': 34, "\\": 92 };

/**
 * Decodes a name as Git writes it: in quotes if it has unusual characters, with a trailing tab if it contains a space.
 */
const nameOf = (written: string): string => {
  if (!written.startsWith('"')) return written.endsWith("\t") ? written.slice(0, -1) : written;
  const bytes: number[] = [];
  const encoder = new TextEncoder();
  for (let at = 1; at < written.length && written[at] !== '"'; at += 1) {
    const char = written[at] ?? "";
    if (char !== "\\") {
      const whole = String.fromCodePoint(written.codePointAt(at) ?? 0);
      bytes.push(...encoder.encode(whole));
      at += whole.length - 1;
      continue;
    }
    const next = written[at + 1] ?? "";
    const octal = /^[0-7]{3}/.exec(written.slice(at + 1, at + 4))?.[0];
    bytes.push(octal === undefined ? (escaped[next] ?? next.charCodeAt(0)) : Number.parseInt(octal, 8));
    at += octal === undefined ? 1 : 3;
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
};

// ---- What is shown -------------------------------------------------------------------------------------------------

/** Why a file's text is not shown; undefined: it is shown. */
type Reason = "binary" | "lock file" | "generated" | undefined;

const lockFiles = new Set(
  (
    "package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb deno.lock Cargo.lock go.sum " +
    "Gemfile.lock composer.lock poetry.lock uv.lock pdm.lock Pipfile.lock mix.lock pubspec.lock Podfile.lock " +
    "Package.resolved packages.lock.json paket.lock gradle.lockfile flake.lock .terraform.lock.hcl MODULE.bazel.lock " +
    "Manifest.toml conan.lock rebar.lock stack.yaml.lock cabal.project.freeze"
  ).split(" "),
);

/** In characters. Nobody writes a longer line by hand. */
const longestLine = 1000;

/** The number of lines at the beginning of a file that count as its header. */
export const headerLines = 10;

/** Whether a header line marks its file as generated. */
export const saysGenerated = (line: string): boolean =>
  /@generated\b|\bcode generated\b|\bauto-?generated\b|\bgenerated (?:by|from|with|file)\b/i.test(line.slice(0, 500));

const reasonOf = (file: FileDiff, generated: (path: string) => boolean): Reason => {
  if (file.binary) return "binary";
  if (lockFiles.has(baseOf(file.path))) return "lock file";
  if (generated(file.path) || (file.from !== null && generated(file.from)) || file.longest > longestLine)
    return "generated";
  // For a file that already existed, only the base decides: no change can take itself out of the review.
  if (file.how === "new" && headOf(file).some(saysGenerated)) return "generated";
  return undefined;
};

const headOf = ({ hunks }: FileDiff): string[] => (hunks[0] ?? "").split("\n", headerLines + 1).slice(1);

const baseOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

const programs = new Set(
  (
    "ts tsx mts cts js jsx mjs cjs py pyi go rs rb java kt kts scala groovy c h cc cpp cxx hpp hh m mm cs fs vb swift php " +
    "pl pm lua r jl ex exs erl hrl clj cljs hs ml mli elm dart zig nim v sol sql sh bash zsh fish ps1 vue svelte astro " +
    "html css scss sass less graphql proto tf nix gradle cmake"
  ).split(" "),
);

type Class = 0 | 1 | 2;

/** The order of files: code, then tests, then the rest. */
const classOf = (path: string): Class => {
  const name = baseOf(path);
  const isCode = programs.has(name.slice(name.lastIndexOf(".") + 1).toLowerCase());
  const folders = path.split("/").slice(0, -1);
  const isTest =
    /(?:^|[._-])(?:test|tests|spec|specs)[._-]|(?:[a-z])(?:Test|Tests|Spec)\.[a-z]+$/.test(name) ||
    folders.some((folder) => /^(?:tests?|specs?|__tests__|testdata|fixtures|e2e)$/i.test(folder));
  return isTest ? 1 : isCode ? 0 : 2;
};

/** With fewer characters than this, a part of a file is useless. */
const leastShare = 600;

/** The number of files in the list; further files are counted by folder. */
const mostListed = 400;

/**
 * The list of all files, and the text of those that people write, in `room` characters. Each file has a fair share;
 * what one does not need goes to the others. A longer file is cut between hunks, or, if not even the first fits, within
 * it between lines. `generated`: whether the base marks a path as generated.
 */
export const showDiff = (
  files: readonly FileDiff[],
  generated: (path: string) => boolean,
  room: number,
): { list: string; text: string } => {
  const judged = files.map((file) => ({ file, reason: reasonOf(file, generated) }));
  const readable = judged
    .flatMap(({ file, reason }) => (reason === undefined ? [file] : []))
    .toSorted((a, b) => classOf(a.path) - classOf(b.path));
  const shares = sharesOf(readable.map(sizeOf), room);
  const shown = new Map(readable.map((file, index) => [file, cut(file, shares[index] ?? 0)]));
  const listed = judged.toSorted((a, b) => orderOf(a) - orderOf(b));
  const lines = listed.slice(0, mostListed).map(({ file, reason }) => lineOf(file, reason, shown.get(file)?.left));
  const cuts = [...shown.values()].filter(({ left }) => left !== undefined);
  const gone = cuts.reduce((sum, { lines: count }) => sum + count, 0);
  return {
    list: [
      `${counted(files.length, "file")}, +${sum(files, "insertions")} -${sum(files, "deletions")}`,
      ...lines,
      ...foldersOf(listed.slice(mostListed).map(({ file }) => file)),
      ...(cuts.length === 0
        ? []
        : [`The diff below is cut: ${counted(gone, "line")} of ${counted(cuts.length, "file")} are left out.`]),
    ].join("\n"),
    text: [...shown.values()].map(({ text }) => text).join(""),
  };
};

const orderOf = ({ file, reason }: { file: FileDiff; reason: Reason }): number =>
  reason === undefined ? classOf(file.path) : 3;

const sum = (files: readonly FileDiff[], what: "insertions" | "deletions"): number =>
  files.reduce((total, file) => total + file[what], 0);

const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;

const shownPath = (path: string): string => (/^"|\p{Cc}/u.test(path) ? JSON.stringify(path) : path);

const lineOf = (file: FileDiff, reason: Reason, left: string | undefined): string => {
  const from = file.from === null ? "" : `${shownPath(file.from)} => `;
  const counts = file.binary ? "" : `+${file.insertions} -${file.deletions}`;
  const why = reason === undefined ? left : reason === "binary" ? "binary" : `${reason}, not shown`;
  const said = [file.how === "changed" ? "" : file.how, counts, why ?? ""].filter((part) => part !== "");
  return ` ${from}${shownPath(file.path)} | ${said.join(", ")}`;
};

/** Lines for the files that are not listed one by one, by folder. */
const foldersOf = (files: readonly FileDiff[]): string[] => {
  const folders = new Map<string, FileDiff[]>();
  for (const file of files) {
    const folder = file.path.includes("/") ? `${file.path.split("/")[0]}/` : "at the root";
    folders.set(folder, [...(folders.get(folder) ?? []), file]);
  }
  return [...folders].map(
    ([folder, inside]) =>
      ` ${shownPath(folder)} | ${counted(inside.length, "more file")}, +${sum(inside, "insertions")} -${sum(inside, "deletions")}, not shown`,
  );
};

const sizeOf = ({ head, hunks, dropped }: FileDiff): number =>
  dropped > 0 ? Number.POSITIVE_INFINITY : head.length + hunks.reduce((total, hunk) => total + hunk.length, 0);

/**
 * Divides the room: each file gets all that it needs, or the same share as every other file that needs more. No share
 * is too small to be useful.
 */
const sharesOf = (sizes: readonly number[], room: number): number[] => {
  const among = sizes.slice(0, Math.max(1, Math.floor(room / leastShare)));
  const shares = sizes.map(() => 0);
  let left = room;
  const bySize = among.map((size, index) => ({ size, index })).toSorted((a, b) => a.size - b.size);
  for (const [done, { size, index }] of bySize.entries()) {
    const share = Math.min(size, Math.floor(left / (bySize.length - done)));
    shares[index] = share;
    left -= share;
  }
  return shares;
};

/**
 * As much of a file as fits. `left`: describes what is left out, undefined: nothing is. `lines`: the number of lines
 * left out.
 */
const cut = (file: FileDiff, share: number): { text: string; left: string | undefined; lines: number } => {
  const all = file.hunks.reduce((total, hunk) => total + linesIn(hunk), 0) + file.dropped;
  if (sizeOf(file) <= share) return { text: `${file.head}${file.hunks.join("")}`, left: undefined, lines: 0 };
  const kept: string[] = [];
  let used = file.head.length;
  for (const hunk of file.hunks) {
    if (used + hunk.length > share) break;
    kept.push(hunk);
    used += hunk.length;
  }
  const whole = kept.length;
  const first = file.hunks[0] ?? "";
  const part = whole === 0 && share >= leastShare ? first.slice(0, first.lastIndexOf("\n", share - used) + 1) : "";
  if (linesIn(part) > 0) kept.push(part);
  const lines = all - kept.reduce((total, hunk) => total + linesIn(hunk), 0);
  if (kept.length === 0) return { text: "", left: "not shown: no room", lines };
  const shown = whole === 0 ? "the beginning of its first hunk" : `${whole} of ${counted(file.hunks.length, "hunk")}`;
  const left = `cut: ${shown} shown, ${counted(lines, "line")} left out`;
  return { text: `${file.head}${kept.join("")}… ${shownPath(file.path)} is ${left} …\n`, left, lines };
};

/** The number of lines of a hunk below its `@@` line. */
const linesIn = (hunk: string): number => Math.max(0, hunk.split("\n").length - (hunk.endsWith("\n") ? 2 : 1));
