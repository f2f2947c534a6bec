import { isUtf8 } from "node:buffer";

/** The text of files as the tools show and compare it. */

/** undefined: the file is not text. Like Git, takes a NUL in the first 8,000 bytes as the sign of a binary file. */
export const textOf = (bytes: Buffer): string | undefined =>
  bytes.subarray(0, 8000).includes(0) || !isUtf8(bytes) ? undefined : bytes.toString("utf8");

/** The lines of a text; a final newline ends the last line and does not begin another. */
export const linesOf = (text: string): string[] => {
  if (text === "") return [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
};

/** The number of lines of a text in UTF-8. */
export const countLines = (bytes: Buffer): number => {
  let count = 0;
  for (let at = 0; at < bytes.length; at += 1) if (bytes[at] === 0x0a) count += 1;
  return bytes.length === 0 || bytes.at(-1) === 0x0a ? count : count + 1;
};

export const numbered = (lines: readonly string[], first: number): string => {
  const width = String(first + lines.length - 1).length;
  return lines.map((line, at) => `${String(first + at).padStart(width)}\t${line}`).join("\n");
};

const pairAt = (text: string, at: number): number => (text.charCodeAt(at) << 16) | text.charCodeAt(at + 1);

const pairsOf = (text: string): Map<number, number> => {
  const pairs = new Map<number, number>();
  for (let at = 0; at + 1 < text.length; at += 1) pairs.set(pairAt(text, at), (pairs.get(pairAt(text, at)) ?? 0) + 1);
  return pairs;
};

/**
 * Compares short texts with one text: similarity from 0 to 1, the share of letter pairs they have in common
 * (Sørensen–Dice).
 */
export const likenessTo = (one: string): ((other: string) => number) => {
  const pairs = pairsOf(one);
  return (other) => {
    if (one === other) return 1;
    if (one.length < 2 || other.length < 2) return 0;
    const used = new Map<number, number>();
    let common = 0;
    for (let at = 0; at + 1 < other.length; at += 1) {
      const pair = pairAt(other, at);
      const most = pairs.get(pair);
      if (most === undefined) continue;
      const before = used.get(pair) ?? 0;
      if (before < most) common += 1;
      used.set(pair, before + 1);
    }
    return (2 * common) / (one.length + other.length - 2);
  };
};

/** The first lines of a text that may have a great many. */
const firstLines = (text: string, most: number): string[] => {
  let end = -1;
  for (let count = 0; count < most; count += 1) {
    const next = text.indexOf("\n", end + 1);
    if (next < 0) return linesOf(text);
    end = next;
  }
  return linesOf(text.slice(0, end + 1));
};

/**
 * The place in a text that is most similar to the wanted lines; undefined: nothing is similar. `spacing`: only white
 * space differs. Bounded: compares at most 40 wanted lines with 20,000, each truncated to 200 characters.
 */
export const nearest = (
  text: string,
  wanted: string,
): { first: number; lines: string[]; spacing: boolean } | undefined => {
  const bare = (line: string) => line.slice(0, 2000).replaceAll(/\s+/g, " ").trim().slice(0, 200);
  const all = firstLines(text, 20_000);
  const want = firstLines(wanted, 40);
  const wantBare = want.map(bare);
  // The longest line represents the block, as the most distinctive one.
  const key = wantBare.reduce((best, line, at) => (line.length > (wantBare[best]?.length ?? 0) ? at : best), 0);
  const keyLine = wantBare[key] ?? "";
  if (keyLine.length < 2) return undefined;

  const likeness = likenessTo(keyLine);
  const bareLines = all.map(bare);
  let best = { score: 0, start: 0 };
  for (const [at, line] of bareLines.entries()) {
    // Texts whose lengths differ more than threefold cannot be half alike.
    if (line.length * 3 < keyLine.length || keyLine.length * 3 < line.length) continue;
    const like = likeness(line);
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
