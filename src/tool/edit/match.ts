import { diffArrays } from "diff";
import { occurrencesOf } from "./occurrence.ts";

/**
 * Finds in a file a text that a model wrote from memory, and adapts its replacement. There are three readings, and the
 * strictest that matches counts: exactly; ignoring white space at line ends (CRLF included); as whole lines whose
 * indentation differs in the same way throughout. Lines that are equal in the old and the new text keep the file's own
 * bytes.
 */

export type Reading = "exact" | "line ends" | "indentation";

export type PassageMatch = {
  reading: Reading;
  /** Offsets, in ascending order. */
  starts: readonly number[];
  /** `endOf`: the end offset of the match with this index; `freshFor`: its replacement. */
  endOf: (index: number) => number;
  freshFor: (index: number) => string;
};

export type FindOptions = {
  /** Match only at the start of a line. */
  whole?: boolean;
  /**
   * Find only matches that do not overlap, in order to replace all of them. Otherwise every match is found, so that the
   * caller sees whether there is only one.
   */
  apart?: boolean;
  /**
   * Limit on the comparison; `TooMuch` is thrown when it does not suffice. Without it the search takes as long as it
   * needs.
   */
  effort?: Effort;
};

/** Limits the comparison of two lists, by the number of differences and in milliseconds. */
export type Effort = { maxEditLength: number; timeout: number };

/** The search needs more than the given effort. */
export class TooMuch extends Error {}

/** Line comparisons after which the search for other indentation is given up. */
const maxCompared = 2_000_000;
/** In characters; a longer text is only matched exactly. */
const maxTolerant = 4_000_000;

/** Empty `starts` means that the text was not found. */
export const find = (text: string, old: string, fresh: string, options: FindOptions = {}): PassageMatch => {
  const { whole = false, apart = false, effort } = options;
  // A CRLF is one line end: no match begins inside it.
  const begins = (at: number) =>
    whole ? at === 0 || text[at - 1] === "\n" : text[at] !== "\n" || text[at - 1] !== "\r";
  let exact = occurrencesOf(text, old, apart).filter(begins);
  if (exact.length === 0 && old.includes("\n") && text.includes("\r\n")) {
    old = old.replaceAll(/\r?\n/g, "\r\n");
    exact = occurrencesOf(text, old, apart).filter(begins);
  }
  const { length } = old;
  // No line ends to adapt: the common case, and the one with the most matches.
  const plain = !fresh.includes("\n") || !text.includes("\r");
  if (exact.length > 0) {
    const merge = plain ? () => fresh : mergerOf(text, old, fresh, effort);
    const endOf = (index: number) => (exact[index] ?? 0) + length;
    return { reading: "exact", starts: exact, endOf, freshFor: (index) => merge(exact[index] ?? 0, endOf(index)) };
  }
  if (text.length > maxTolerant || old.trim() === "")
    return { reading: "exact", starts: [], endOf: () => 0, freshFor: () => "" };
  const lines = text.split("\n");
  const bare = lines.map(trimEnd);
  const loose = withoutLineEnds(lines, bare, old, begins, apart);
  const merge = mergerOf(text, old, fresh, effort);
  const found = (reading: Reading, places: readonly Place[]): PassageMatch => ({
    reading,
    starts: places.map(({ from }) => from),
    endOf: (index) => places[index]?.to ?? 0,
    freshFor: (index) => {
      const { from = 0, to = 0, shift } = places[index] ?? {};
      return merge(from, to, shift);
    },
  });
  return loose.length > 0
    ? found("line ends", loose)
    : found("indentation", reindented(text, lines, bare, old, merge.added));
};

type Place = { from: number; to: number; shift?: Shift };

/** Hand-written, because a regular expression would take quadratic time on long white space. */
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
  lines: readonly string[],
  bare: readonly string[],
  old: string,
  begins: (at: number) => boolean,
  apart: boolean,
): Place[] => {
  const view = bare.join("\n");
  const wanted = old.split("\n").map(trimEnd).join("\n");
  // White space at the very end of `old` can only match white space at the end of a line.
  const atEnd = trimEnd(old) !== old;
  const places: Place[] = [];
  const start = originOf(lines, bare);
  const stop = originOf(lines, bare);
  for (const at of occurrencesOf(view, wanted, apart)) {
    const end = at + wanted.length;
    if (atEnd && end < view.length && view[end] !== "\n") continue;
    const from = start(at);
    const to = stop(end);
    if (begins(from)) places.push({ from, to });
  }
  return places;
};

/** Converts offsets in the trimmed lines to offsets in the text; they must ascend from call to call. */
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
  added: readonly string[],
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
    if (shift === undefined || added.some((line) => shift(line) === undefined)) continue;
    compared += added.length;
    const last = first + wanted.length - 1;
    let to = from;
    for (let at = first; at < last; at += 1) to += (lines[at]?.length ?? 0) + 1;
    to += closed ? (lines[last]?.length ?? 0) + 1 : (bare[last]?.length ?? 0);
    if (to > text.length) continue;
    places.push({ from, to, shift });
  }
  return places;
};

type Shift = (line: string) => string | undefined;

/** Converts the indentation of `wanted` to the file's, if it differs in the same way on all lines. */
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

type Merge = ((from: number, to: number, shift?: Shift) => string) & {
  /** The lines that `fresh` adds. */
  added: readonly string[];
};

/** Builds the new text for a match, with the file's line ends, and the file's own lines where old and new are equal. */
const mergerOf = (text: string, old: string, fresh: string, effort: Effort | undefined): Merge => {
  const olds = piecesOf(old);
  const news = piecesOf(fresh);
  const runs = runsOf(olds, news, effort);
  const near = lineEndNear(text);
  const merge = (from: number, to: number, shift: Shift = (line) => line): string => {
    const there = piecesOf(text.slice(from, to));
    const local = there.find(({ end }) => end !== "")?.end ?? near(to);
    const result: Piece[] = [];
    let at = 0;
    let next = 0;
    for (const { added, removed, count } of runs)
      if (removed) at += count;
      else if (added) {
        for (const piece of news.slice(next, next + count))
          result.push({ text: shift(piece.text) ?? piece.text, end: piece.end === "\r\n" ? "\r\n" : "" });
        next += count;
      } else {
        for (const piece of there.slice(at, at + count)) result.push(piece);
        at += count;
        next += count;
      }
    const last = result.length - 1;
    return result.map((piece, index) => (index === last ? piece.text : piece.text + (piece.end || local))).join("");
  };
  let next = 0;
  const added = runs.flatMap((run) => {
    if (run.removed) return [];
    next += run.count;
    return run.added ? news.slice(next - run.count, next).map((piece) => piece.text) : [];
  });
  return Object.assign(merge, { added });
};

type Run = { added: boolean; removed: boolean; count: number };

const runsOf = (olds: readonly Piece[], news: readonly Piece[], effort: Effort | undefined): Run[] => {
  // Equal beginnings and ends are split off first, so that of two equal lines the one at the same position is kept.
  const same = (back: number) => olds.at(back)?.text === news.at(back)?.text;
  const fewer = Math.min(olds.length, news.length);
  let head = 0;
  while (head < fewer && same(head)) head += 1;
  let tail = 0;
  while (tail < fewer - head && same(-1 - tail)) tail += 1;
  const texts = (pieces: readonly Piece[]) => pieces.slice(head, pieces.length - tail).map((piece) => piece.text);
  const changes = diffArrays(texts(olds), texts(news), effort ?? fullEffort);
  if (changes === undefined && effort !== undefined) throw new TooMuch();
  const kept = (count: number): Run => ({ added: false, removed: false, count });
  return [
    kept(head),
    ...(changes ?? [
      { added: false, removed: true, count: olds.length - head - tail },
      { added: true, removed: false, count: news.length - head - tail },
    ]),
    kept(tail),
  ];
};

const fullEffort: Effort = { maxEditLength: 4000, timeout: 3000 };

/** The line end at or after an offset, otherwise the last one before it; offsets must ascend from call to call. */
const lineEndNear = (text: string): ((offset: number) => string) => {
  const last = text.lastIndexOf("\n");
  let newline = -1;
  return (offset) => {
    if (newline < offset && offset <= last) newline = text.indexOf("\n", offset);
    const at = offset <= last ? newline : last;
    return at > 0 && text[at - 1] === "\r" ? "\r\n" : "\n";
  };
};
