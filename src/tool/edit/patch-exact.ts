import type { StructuredPatch, StructuredPatchHunk } from "diff";
import { startsIn } from "./occurrence.ts";

/**
 * Applies the hunks of a unified diff to a text, each where its lines stand nearest to its number, shifted as the hunk
 * before it was. Takes time linear in the text for each hunk, however often its lines stand there in part.
 */

export type FitResult =
  | { text: string }
  /** The hunk of this index stands nowhere, or not below the hunk before it. */
  | { failed: number }
  /** It does not stand at its own line but at several others (counted from 1). */
  | { doubtful: number; lines: number[] };

type Side = {
  hunk: StructuredPatchHunk;
  /** Its lines by number, as in the text. */
  old: Int32Array;
  /** What it puts in place of them. */
  fresh: string[];
  /** Lines of context at its end, into which the next hunk may reach. */
  trailing: number;
};

/** Places that are told. */
const mostTold = 20;

export const fitExactly = (text: string, patch: StructuredPatch): FitResult => {
  const lines = text.split("\n");
  const last = patch.hunks.length - 1;
  const end = lineEndOf(patch.hunks[last]);
  // A last line without an end is an empty one less.
  const open = lines.at(-1) !== "";
  if (end === "both" && !open) return { failed: last };
  if (end === "removed" && open) return { failed: last };
  if (end === "added" && !open) return { failed: last };
  if (end === "removed") lines.pop();
  if (end === "added") lines.push("");

  const { numbers, sides } = numbered(lines, patch.hunks, convertFor(text, patch));
  const stands = ({ old }: Side, at: number) =>
    at >= 0 && at + old.length <= numbers.length && old.every((number, offset) => numbers[at + offset] === number);
  for (const [index, side] of sides.entries()) {
    const own = side.hunk.oldStart - 1;
    if (side.old.length === 0 || stands(side, own)) continue;
    const places = startsIn(numbers, side.old, mostTold);
    if (places.length === 0) return { failed: index };
    if (places.length > 1) return { doubtful: index, lines: places.map((at) => at + 1) };
  }

  const result: string[] = [];
  let from = 0;
  let shift = 0;
  for (const [index, side] of sides.entries()) {
    const wanted = side.hunk.oldStart - 1 + shift;
    const at =
      wanted >= from && stands(side, wanted)
        ? wanted
        : nearestOf(side.old.length === 0 ? [] : startsIn(numbers, side.old, Number.POSITIVE_INFINITY), wanted, from);
    if (at === undefined) return { failed: index };
    for (let line = from; line < at; line += 1) result.push(lines[line] ?? "");
    for (const line of side.fresh) result.push(line);
    from = at + side.old.length - side.trailing;
    shift = at + 1 - side.hunk.oldStart;
  }
  for (let line = from; line < lines.length; line += 1) result.push(lines[line] ?? "");
  return { text: result.join("\n") };
};

/** What a patch says of the text's last line end: it adds or removes it, or both versions have none. */
const lineEndOf = (hunk: StructuredPatchHunk | undefined): "added" | "removed" | "both" | undefined => {
  const signs = (hunk?.lines ?? []).flatMap((line, at, all) => (line.startsWith("\\") ? [all[at - 1]?.[0] ?? ""] : []));
  const [fresh, old] = [signs.includes("+"), signs.includes("-")];
  return fresh && old ? "both" : fresh ? "removed" : old ? "added" : undefined;
};

/** A patch with one kind of line ends fits a text with the other kind. */
const convertFor = (text: string, { hunks }: StructuredPatch): ((line: string) => string) => {
  const contents = hunks.flatMap(({ lines }) =>
    lines.filter((line, at) => !line.startsWith("\\") && lines[at + 1]?.startsWith("\\") !== true),
  );
  const returns = contents.filter((line) => line.endsWith("\r")).length;
  const windows = text.includes("\r\n");
  if (windows && returns === 0 && !/(?:^|[^\r])\n/.test(text)) return (line) => `${line}\r`;
  if (!windows && text.includes("\n") && returns > 0 && returns === contents.length)
    return (line) => (line.endsWith("\r") ? line.slice(0, -1) : line);
  return (line) => line;
};

/** The hunks' lines by number, and the text's; 0: a line that no hunk has. */
const numbered = (
  lines: readonly string[],
  hunks: readonly StructuredPatchHunk[],
  convert: (line: string) => string,
): { numbers: Int32Array; sides: Side[] } => {
  const known = new Map<string, number>();
  const numberOf = (line: string): number => {
    const number = known.get(line) ?? known.size + 1;
    known.set(line, number);
    return number;
  };
  const sides = hunks.map((hunk): Side => {
    const old: number[] = [];
    const fresh: string[] = [];
    let trailing = 0;
    for (const [at, line] of hunk.lines.entries()) {
      const sign = line[0] ?? " ";
      if (sign === "\\") continue;
      // A last line without an end has none to convert.
      const content = hunk.lines[at + 1]?.startsWith("\\") === true ? line.slice(1) : convert(line.slice(1));
      if (sign !== "+") old.push(numberOf(content));
      if (sign !== "-") fresh.push(content);
      trailing = sign === " " ? trailing + 1 : 0;
    }
    return { hunk, old: Int32Array.from(old), fresh: fresh.slice(0, fresh.length - trailing), trailing };
  });
  return { numbers: Int32Array.from(lines, (line) => known.get(line) ?? 0), sides };
};

/** The place nearest to where it was wanted; of two, the one below. */
const nearestOf = (places: readonly number[], wanted: number, from: number): number | undefined =>
  places
    .filter((at) => at >= from)
    .reduce<number | undefined>((best, at) => {
      if (best === undefined) return at;
      const [near, there] = [Math.abs(best - wanted), Math.abs(at - wanted)];
      return there < near || (there === near && at > wanted) ? at : best;
    }, undefined);
