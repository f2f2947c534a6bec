import { diffArrays, structuredPatch } from "diff";
import { linesOf } from "../file/text.ts";
import type { Effort } from "./match.ts";

/** The difference between two versions of a file, at bounded effort: equal beginnings and ends are not compared. */

const context = 3;

/** Most lines that are compared, in the differing parts of both versions together. */
const mostLines = 500_000;

/** How many lines of a long run of new lines are shown at each end; the model itself wrote the rest a moment ago. */
const shownEnds = 4;

export type Difference = { added: number; removed: number /** The changed places as they are now. */; places: string };

/**
 * The changed lines in their present form, with a few lines around them and line numbers, as `read` shows them;
 * undefined: there are too many differences to be useful.
 */
export const differenceOf = (path: string, before: string, after: string, effort: Effort): Difference | undefined => {
  const { from, old, fresh } = changedPart(before, after);
  if (linesUpTo(old, mostLines) + linesUpTo(fresh, mostLines) > mostLines) return undefined;
  const patch = structuredPatch(path, path, old, fresh, "", "", { context, ...effort });
  if (patch === undefined) return undefined;
  let line = 0;
  for (let at = before.indexOf("\n"); at >= 0 && at < from; at = before.indexOf("\n", at + 1)) line += 1;
  const count = (sign: string) =>
    patch.hunks.reduce((sum, { lines }) => sum + lines.filter((each) => each.startsWith(sign)).length, 0);
  const last = patch.hunks.at(-1);
  const width = String((last?.newStart ?? 0) + (last?.newLines ?? 0) + line).length;
  const places = patch.hunks.map(({ lines, newStart }) => placeOf(lines, newStart + line, width).join("\n"));
  return { added: count("+"), removed: count("-"), places: places.filter((place) => place !== "").join("\n…\n") };
};

const placeOf = (lines: readonly string[], first: number, width: number): string[] => {
  const shown: string[] = [];
  /** The current run of new lines. */
  let run: string[] = [];
  let at = first;
  const numbered = (line: string) => `${String(at++).padStart(width)}\t${line.slice(1)}`;
  const flush = () => {
    const hidden = run.length - 2 * shownEnds;
    if (hidden < 2) shown.push(...run.map(numbered));
    else {
      shown.push(...run.slice(0, shownEnds).map(numbered), `… ${hidden} more lines as you gave them …`);
      at += hidden;
      shown.push(...run.slice(-shownEnds).map(numbered));
    }
    run = [];
  };
  for (const line of lines)
    if (line.startsWith("+")) run.push(line);
    else if (line.startsWith(" ")) {
      flush();
      shown.push(numbered(line));
    }
  flush();
  return shown;
};

/** Lines added and removed; undefined: there are too many. */
export const countChanges = (
  before: string,
  after: string,
  effort: Effort,
): { added: number; removed: number } | undefined => {
  const { old, fresh } = changedPart(before, after);
  if (linesUpTo(old, mostLines) + linesUpTo(fresh, mostLines) > mostLines) return undefined;
  const runs = diffArrays(linesOf(old), linesOf(fresh), effort);
  const count = (kind: "added" | "removed") => (runs ?? []).reduce((sum, run) => sum + (run[kind] ? run.count : 0), 0);
  return runs && { added: count("added"), removed: count("removed") };
};

const linesUpTo = (text: string, most: number): number => {
  let count = 0;
  for (let at = text.indexOf("\n"); at >= 0 && count <= most; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
};

/** The part that differs, with whole lines of context around it, and its offset. */
const changedPart = (before: string, after: string): { from: number; old: string; fresh: string } => {
  const { from, end } = boundsOf(before, after);
  return { from, old: before.slice(from, before.length - end), fresh: after.slice(from, after.length - end) };
};

/** `from`: where the differing part begins. `end`: the length of the equal text after it. */
const boundsOf = (before: string, after: string): { from: number; end: number } => {
  const shorter = Math.min(before.length, after.length);
  let from = 0;
  while (from < shorter && before.charCodeAt(from) === after.charCodeAt(from)) from += 1;
  let end = 0;
  const most = shorter - from;
  while (end < most && before.charCodeAt(before.length - 1 - end) === after.charCodeAt(after.length - 1 - end))
    end += 1;
  from = lineStart(before, from);
  for (let lines = 0; lines < context && from > 0; lines += 1) from = lineStart(before, from - 1);
  let to = before.length - end;
  for (let lines = 0; lines <= context; lines += 1) {
    const next = before.indexOf("\n", to);
    if (next < 0) return { from, end: 0 };
    to = next + 1;
  }
  return { from, end: before.length - to };
};

const lineStart = (text: string, offset: number): number => (offset === 0 ? 0 : text.lastIndexOf("\n", offset - 1) + 1);
