import { diffArrays } from "diff";

/**
 * Finds a text that a model wrote from memory in a file, and adapts its replacement. Three readings, of which the
 * strictest that matches counts: exactly; ignoring white space at line ends (CRLF included); as whole lines whose
 * indentation differs in the same way throughout. Lines that are equal in both texts keep the file's own bytes.
 */

export type Place = { from: number; to: number; fresh: string; line: number };
export type Reading = "exact" | "line ends" | "indentation";
export type PassageMatch = { reading: Reading; places: Place[] };

/** Line comparisons after which the search for other indentation is given up. */
const maxCompared = 2_000_000;
/** Characters; a longer text is matched exactly only. */
const maxTolerant = 4_000_000;

/**
 * `whole`: only at the start of a line. `apart`: places that do not overlap, in order to replace all; otherwise every
 * place, so that the caller can tell whether there is only one. Empty `places`: not found.
 */
export const find = (text: string, old: string, fresh: string, { whole = false, apart = false } = {}): PassageMatch => {
  // A CRLF is one line end: no match begins inside it.
  const begins = (at: number) =>
    whole ? at === 0 || text[at - 1] === "\n" : text[at] !== "\n" || text[at - 1] !== "\r";
  const ends = endsOf(text);
  let exact = startsOf(text, old, apart).filter(begins);
  if (exact.length === 0 && old.includes("\n") && text.includes("\r\n")) {
    old = old.replaceAll(/\r?\n/g, "\r\n");
    exact = startsOf(text, old, apart).filter(begins);
  }
  // No line ends to adapt: the common case, and the one with very many matches.
  const plain = !text.includes("\r") || !fresh.includes("\n");
  if (exact.length > 0)
    return {
      reading: "exact",
      places: exact.map((from) => {
        const to = from + old.length;
        return { from, to, fresh: plain ? fresh : merged(text, from, to, old, fresh), line: ends.lineAt(from) };
      }),
    };
  if (text.length > maxTolerant || old.trim() === "") return { reading: "exact", places: [] };
  const lines = text.split("\n");
  const bare = lines.map(trimEnd);
  const loose = withoutLineEnds(text, lines, bare, old, fresh, begins, apart);
  if (loose.length > 0)
    return { reading: "line ends", places: loose.map((place) => ({ ...place, line: ends.lineAt(place.from) })) };
  return { reading: "indentation", places: reindented(text, lines, bare, old, fresh) };
};

export const startsOf = (text: string, part: string, apart = true): number[] => {
  const starts: number[] = [];
  const step = apart ? part.length : 1;
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + step)) starts.push(at);
  return starts;
};

/** Converts rising offsets to line numbers, in one pass over the text. */
const endsOf = (text: string) => {
  let at = 0;
  let line = 1;
  return {
    lineAt(offset: number): number {
      if (offset < at) [at, line] = [0, 1];
      for (let next = text.indexOf("\n", at); next >= 0 && next < offset; next = text.indexOf("\n", at)) {
        at = next + 1;
        line += 1;
      }
      return line;
    },
  };
};

/** A regular expression would take quadratic time on long white space. */
const trimEnd = (line: string): string => {
  let end = line.length;
  while (end > 0 && " \t\r".includes(line[end - 1] ?? "x")) end -= 1;
  return line.slice(0, end);
};

const indentOf = (line: string): string => {
  let end = 0;
  while (end < line.length && " \t".includes(line[end] ?? "x")) end += 1;
  return line.slice(0, end);
};

const withoutLineEnds = (
  text: string,
  lines: readonly string[],
  bare: readonly string[],
  old: string,
  fresh: string,
  begins: (at: number) => boolean,
  apart: boolean,
): Omit<Place, "line">[] => {
  const view = bare.join("\n");
  const wanted = old.split("\n").map(trimEnd).join("\n");
  // White space at the very end of `old` can only match that of a line's end.
  const atEnd = trimEnd(old) !== old;
  const places: Omit<Place, "line">[] = [];
  const start = originOf(lines, bare);
  const stop = originOf(lines, bare);
  for (const at of startsOf(view, wanted, apart)) {
    const end = at + wanted.length;
    if (atEnd && end < view.length && view[end] !== "\n") continue;
    const from = start(at);
    const to = stop(end);
    if (begins(from)) places.push({ from, to, fresh: merged(text, from, to, old, fresh) });
  }
  return places;
};

/** Converts offsets in the lines without their ends to offsets in the text; they must rise from call to call. */
const originOf = (lines: readonly string[], bare: readonly string[]) => {
  let line = 0;
  let inView = 0;
  let inText = 0;
  return (offset: number): number => {
    while (offset > inView + (bare[line]?.length ?? 0)) {
      inView += (bare[line]?.length ?? 0) + 1;
      inText += (lines[line]?.length ?? 0) + 1;
      line += 1;
    }
    return inText + offset - inView;
  };
};

const reindented = (
  text: string,
  lines: readonly string[],
  bare: readonly string[],
  old: string,
  fresh: string,
): Place[] => {
  const closed = old.endsWith("\n");
  const wanted = (closed ? old.slice(0, -1) : old).split("\n").map(trimEnd);
  const core = wanted.map((line) => line.trimStart());
  const key = core.findIndex((line) => line !== "");
  const places: Place[] = [];
  let compared = 0;
  let offset = 0;
  for (let first = 0; first + wanted.length <= bare.length && compared < maxCompared; first += 1) {
    const from = offset;
    offset += (lines[first]?.length ?? 0) + 1;
    compared += 1;
    if (bare[first + key]?.trimStart() !== core[key]) continue;
    let same = 0;
    while (same < core.length && bare[first + same]?.trimStart() === core[same]) same += 1;
    compared += same;
    if (same < core.length) continue;
    const shift = shiftOf(wanted, bare.slice(first, first + wanted.length));
    if (shift === undefined) continue;
    const last = first + wanted.length - 1;
    let to = from;
    for (let at = first; at < last; at += 1) to += (lines[at]?.length ?? 0) + 1;
    to += closed ? (lines[last]?.length ?? 0) + 1 : (bare[last]?.length ?? 0);
    if (to > text.length) continue;
    const put = merged(text, from, to, old, fresh, shift);
    if (put === undefined) continue;
    places.push({ from, to, fresh: put, line: first + 1 });
  }
  return places;
};

type Shift = (line: string) => string | undefined;

/** How the indentation of `wanted` becomes that of the file, if it differs in the same way on all lines. */
const shiftOf = (wanted: readonly string[], there: readonly string[]): Shift | undefined => {
  const pairs = wanted.flatMap((line, at) =>
    line === "" ? [] : [{ mine: indentOf(line), theirs: indentOf(there[at] ?? "") }],
  );
  const one = pairs[0];
  if (one === undefined) return undefined;
  const { mine, theirs } = one;
  if (theirs.endsWith(mine)) {
    const more = theirs.slice(0, theirs.length - mine.length);
    if (pairs.every((pair) => pair.theirs === more + pair.mine)) return (line) => (line === "" ? "" : more + line);
  }
  if (mine.endsWith(theirs)) {
    const less = mine.slice(0, mine.length - theirs.length);
    if (pairs.every((pair) => pair.mine === less + pair.theirs))
      return (line) => (line === "" ? "" : line.startsWith(less) ? line.slice(less.length) : undefined);
  }
  for (const width of [4, 2, 8, 3]) {
    const spaces = (tabs: string) => " ".repeat(width * tabs.length);
    const isTabs = (indent: string) => indent === "\t".repeat(indent.length);
    if (pairs.every((pair) => isTabs(pair.theirs) && pair.mine === spaces(pair.theirs)))
      return (line) => {
        const indent = indentOf(line);
        const tabs = Math.floor(indent.length / width);
        return indent.includes("\t") ? undefined : "\t".repeat(tabs) + line.slice(tabs * width);
      };
    if (pairs.every((pair) => isTabs(pair.mine) && pair.theirs === spaces(pair.mine)))
      return (line) => {
        const indent = indentOf(line);
        return isTabs(indent) ? spaces(indent) + line.slice(indent.length) : undefined;
      };
  }
  return undefined;
};

type Piece = { text: string; end: string };

const piecesOf = (text: string): Piece[] => {
  const parts = text.split("\n");
  return parts.map((part, at) =>
    at === parts.length - 1
      ? { text: part, end: "" }
      : part.endsWith("\r")
        ? { text: part.slice(0, -1), end: "\r\n" }
        : { text: part, end: "\n" },
  );
};

/** The new text with the file's line ends, and with the file's own lines where old and new are equal. */
function merged(text: string, from: number, to: number, old: string, fresh: string): string;
function merged(text: string, from: number, to: number, old: string, fresh: string, shift: Shift): string | undefined;
function merged(text: string, from: number, to: number, old: string, fresh: string, shift?: Shift): string | undefined {
  const there = piecesOf(text.slice(from, to));
  const local = there.find(({ end }) => end !== "")?.end ?? endNear(text, from, to);
  const olds = piecesOf(old);
  const news = piecesOf(fresh);
  const result: Piece[] = [];
  // Equal beginnings and ends first, so that of two equal lines the one at the same position is kept.
  const same = (back: number) => olds.at(back)?.text === news.at(back)?.text;
  const fewer = Math.min(olds.length, news.length);
  let head = 0;
  while (head < fewer && same(head)) head += 1;
  let tail = 0;
  while (tail < fewer - head && same(-1 - tail)) tail += 1;
  const texts = (pieces: Piece[]) => pieces.slice(head, pieces.length - tail).map((piece) => piece.text);
  const changes = diffArrays(texts(olds), texts(news), { maxEditLength: 4000 }) ?? [
    { added: false, removed: true, count: olds.length - head - tail },
    { added: true, removed: false, count: news.length - head - tail },
  ];
  let at = 0;
  let next = 0;
  const keep = (count: number) => {
    for (const piece of there.slice(at, at + count)) result.push(piece);
    at += count;
    next += count;
  };
  keep(head);
  for (const { added, removed, count } of changes)
    if (removed) at += count;
    else if (!added) keep(count);
    else {
      for (const piece of news.slice(next, next + count)) {
        const put = shift === undefined ? piece.text : shift(piece.text);
        if (put === undefined) return undefined;
        result.push({ text: put, end: piece.end === "\r\n" ? "\r\n" : "" });
      }
      next += count;
    }
  keep(tail);
  const last = result.length - 1;
  return result.map((piece, index) => (index === last ? piece.text : piece.text + (piece.end || local))).join("");
}

const endNear = (text: string, from: number, to: number): string => {
  const after = text.indexOf("\n", to);
  const newline = after >= 0 ? after : text.lastIndexOf("\n", from);
  return newline > 0 && text[newline - 1] === "\r" ? "\r\n" : "\n";
};
