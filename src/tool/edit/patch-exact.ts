import type { StructuredPatch, StructuredPatchHunk } from "diff";
import { sequenceStarts } from "./occurrence.ts";

/**
 * Applies the hunks of a unified diff to a text, each at the matching place nearest to its line number, shifted like
 * the hunk before it. Takes time linear in the text for each hunk, however often parts of its lines occur.
 */

export type FitResult =
  | { text: string }
  /** The hunk with this index matches nowhere, or only above the end of the hunk before it. */
  | { failed: number }
  /** The hunk does not match at its own line but at several others (counted from 1). */
  | { doubtful: number; lines: number[] };

type Side = {
  hunk: StructuredPatchHunk;
  /** The lines it replaces, by their numbers as in the text. */
  old: Int32Array;
  /** The lines that replace them. */
  fresh: string[];
  /** Number of context lines at its end, which the next hunk may overlap. */
  trailing: number;
};

/** How many places are reported. */
const mostTold = 20;

export const fitExactly = (text: string, patch: StructuredPatch): FitResult => {
  const lines = text.split("\n");
  const last = patch.hunks.length - 1;
  const end = lineEndOf(patch.hunks[last]);
  // Without a final line end, the split yields no empty last item.
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
    const places = sequenceStarts(numbers, side.old, mostTold);
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
        : nearestOf(
            side.old.length === 0 ? [] : sequenceStarts(numbers, side.old, Number.POSITIVE_INFINITY),
            wanted,
            from,
          );
    if (at === undefined) return { failed: index };
    for (let line = from; line < at; line += 1) result.push(lines[line] ?? "");
    for (const line of side.fresh) result.push(line);
    from = at + side.old.length - side.trailing;
    shift = at + 1 - side.hunk.oldStart;
  }
  for (let line = from; line < lines.length; line += 1) result.push(lines[line] ?? "");
  return { text: result.join("\n") };
};

/** What a patch says about the text's last line end: it adds or removes it, or neither version has one. */
const lineEndOf = (hunk: StructuredPatchHunk | undefined): "added" | "removed" | "both" | undefined => {
  const signs = (hunk?.lines ?? []).flatMap((line, at, all) => (line.startsWith("\\") ? [all[at - 1]?.[0] ?? ""] : []));
  const [fresh, old] = [signs.includes("+"), signs.includes("-")];
  return fresh && old ? "both" : fresh ? "removed" : old ? "added" : undefined;
};

/** Lets a patch with one kind of line ends fit a text with the other kind. */
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

/** Numbers the hunks' lines and the text's; 0: a line that occurs in no hunk. */
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
      // A last line without a line end has none to convert.
      const content = hunk.lines[at + 1]?.startsWith("\\") === true ? line.slice(1) : convert(line.slice(1));
      if (sign !== "+") old.push(numberOf(content));
      if (sign !== "-") fresh.push(content);
      trailing = sign === " " ? trailing + 1 : 0;
    }
    return { hunk, old: Int32Array.from(old), fresh: fresh.slice(0, fresh.length - trailing), trailing };
  });
  return { numbers: Int32Array.from(lines, (line) => known.get(line) ?? 0), sides };
};

/** The place nearest to the wanted one; of two equally near, the lower one in the file. */
const nearestOf = (places: readonly number[], wanted: number, from: number): number | undefined =>
  places
    .filter((at) => at >= from)
    .reduce<number | undefined>((best, at) => {
      if (best === undefined) return at;
      const [near, there] = [Math.abs(best - wanted), Math.abs(at - wanted)];
      return there < near || (there === near && at > wanted) ? at : best;
    }, undefined);
