import { isUtf8 } from "node:buffer";

/** Text of files, as the tools show and compare it. */

/** undefined: not text. Like Git, takes a NUL in the first 8,000 bytes as the sign of a binary file. */
export const textOf = (bytes: Buffer): string | undefined =>
  bytes.subarray(0, 8000).includes(0) || !isUtf8(bytes) ? undefined : bytes.toString("utf8");

/** The lines of a text; a final newline ends the last line and begins no other. */
export const linesOf = (text: string): string[] => {
  if (text === "") return [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
};

export const numbered = (lines: readonly string[], first: number): string => {
  const width = String(first + lines.length - 1).length;
  return lines.map((line, at) => `${String(first + at).padStart(width)}\t${line}`).join("\n");
};

const pairsOf = (text: string): Map<string, number> => {
  const pairs = new Map<string, number>();
  for (let at = 0; at + 1 < text.length; at += 1) {
    const pair = text.slice(at, at + 2);
    pairs.set(pair, (pairs.get(pair) ?? 0) + 1);
  }
  return pairs;
};

/** Similarity of two short texts, 0 to 1: the share of letter pairs they have in common (Sørensen–Dice). */
export const likeness = (left: string, right: string): number => {
  if (left === right) return 1;
  if (left.length < 2 || right.length < 2) return 0;
  const pairs = pairsOf(left);
  let common = 0;
  for (const [pair, count] of pairsOf(right)) common += Math.min(count, pairs.get(pair) ?? 0);
  return (2 * common) / (left.length + right.length - 2);
};

/**
 * The place in a text that is most similar to the wanted lines; undefined: nothing is similar. `spacing`: only white
 * space differs. Bounded: compares at most 40 wanted lines with 20,000, each truncated to 200 characters.
 */
export const nearest = (
  text: string,
  wanted: string,
): { first: number; lines: string[]; spacing: boolean } | undefined => {
  const bare = (line: string) => line.replaceAll(/\s+/g, " ").trim().slice(0, 200);
  const all = linesOf(text).slice(0, 20_000);
  const want = linesOf(wanted).slice(0, 40);
  const wantBare = want.map(bare);
  // The longest line represents the block, as the most distinctive one.
  const key = wantBare.reduce((best, line, at) => (line.length > (wantBare[best]?.length ?? 0) ? at : best), 0);
  const keyLine = wantBare[key] ?? "";
  if (keyLine.length < 2) return undefined;

  const bareLines = all.map(bare);
  let best = { score: 0, start: 0 };
  for (const [at, line] of bareLines.entries()) {
    // Texts whose lengths differ more than threefold cannot be half alike.
    if (line.length * 3 < keyLine.length || keyLine.length * 3 < line.length) continue;
    const like = likeness(line, keyLine);
    if (like < 0.5) continue;
    const start = at - key;
    const equal = wantBare.filter((wish, offset) => wish !== "" && bareLines[start + offset] === wish).length;
    const score = like + equal;
    if (score > best.score) best = { score, start };
  }
  if (best.score === 0) return undefined;
  const from = Math.max(0, best.start);
  const lines = all.slice(from, best.start + want.length);
  return { first: from + 1, lines, spacing: lines.map(bare).join(" ") === wantBare.join(" ") };
};
