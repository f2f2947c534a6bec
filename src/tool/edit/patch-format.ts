import { type Effort, find } from "./match.ts";
import { lineCounter, occurrencesOf } from "./occurrence.ts";
import { nearest, numbered, textOf } from "../file/text.ts";
import type { Fitted, Tree } from "../file/change.ts";
import { shown } from "../result.ts";

/**
 * Parses patches as models write them: the `*** Begin Patch` form, and unified diffs whose line numbers and counts are
 * wrong or missing. A hunk is located by its lines, at exactly one place or not at all; line numbers and `@@` texts
 * only choose between places.
 */

export type Hunk = { header: string; line: number | undefined; old: string[]; fresh: string[]; atEnd: boolean };
export type FilePart =
  | { kind: "add"; path: string; text: string }
  | { kind: "delete"; path: string }
  | { kind: "update"; path: string; to: string; hunks: Hunk[] };
export type Parsed = FilePart[] | { refused: string };

export const isEnvelope = (text: string): boolean => /^[ \t]*\*\*\* Begin Patch[ \t\r]*$/m.test(text);

const fileLine = /^\*\*\* (Add|Update|Delete) File: (\S.*)$/;

export const parseEnvelope = (text: string): Parsed => {
  const parts: FilePart[] = [];
  let part: FilePart | undefined;
  let begun = false;
  let ended = false;
  for (const [index, raw] of text.split("\n").entries()) {
    const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
    const refuse = (expected: string) => ({
      refused: `Line ${index + 1} of the patch: expected ${expected}, got ${JSON.stringify(line.slice(0, 200))}; nothing was changed.`,
    });
    if (!begun) {
      begun = line.trim() === "*** Begin Patch";
      continue;
    }
    if (line.trim() === "*** End Patch") {
      ended = true;
      break;
    }
    const [, verb, named = ""] = fileLine.exec(line) ?? [];
    const path = named.trimEnd();
    if (verb !== undefined) {
      part =
        verb === "Add"
          ? { kind: "add", path, text: "" }
          : verb === "Delete"
            ? { kind: "delete", path }
            : { kind: "update", path, to: path, hunks: [] };
      parts.push(part);
      continue;
    }
    const move = /^\*\*\* Move to: (\S.*)$/.exec(line)?.[1]?.trimEnd();
    if (move !== undefined) {
      if (part?.kind !== "update" || part.hunks.length > 0)
        return refuse("`*** Move to:` right after `*** Update File:`");
      part.to = move;
    } else if (part === undefined) {
      if (line.trim() !== "") return refuse("`*** Add File:`, `*** Update File:` or `*** Delete File:`");
    } else if (part.kind === "add") {
      if (line !== "" && !line.startsWith("+")) return refuse("a line of the new file, with + in front");
      part.text += `${line.slice(1)}\n`;
    } else if (part.kind === "delete") {
      if (line.trim() !== "") return refuse("nothing below `*** Delete File:`");
    } else if (!hunkLine(part.hunks, line)) return refuse("a line that begins with a space, + or -, or `@@`");
  }
  if (!ended) return { refused: "Expected `*** End Patch` at the end of the patch, got none; nothing was changed." };
  const empty = parts.find((one) => one.kind === "update" && one.to === one.path && one.hunks.length === 0);
  if (empty !== undefined)
    return { refused: `Expected a hunk for ${shown(empty.path)}, got none; nothing was changed.` };
  return parts.length === 0 ? { refused: "Expected a file in the patch, got none; nothing was changed." } : parts;
};

/**
 * Returns false if the line is not part of a hunk. An empty line counts as a context line that lost its leading space.
 */
const hunkLine = (hunks: Hunk[], line: string): boolean => {
  const open = hunks.at(-1);
  if (line.startsWith("@@")) {
    const [, first, header = ""] = /^@@(?: -(\d+)(?:,\d+)?(?: \+\d+(?:,\d+)?)? @@)?(.*)$/.exec(line) ?? [];
    const fresh = { line: first === undefined ? undefined : Number(first), header: header.trim() };
    // Several `@@` lines above one hunk narrow it down, the last one most.
    if (open !== undefined && open.old.length === 0 && open.fresh.length === 0) Object.assign(open, fresh);
    else hunks.push({ ...fresh, old: [], fresh: [], atEnd: false });
    return true;
  }
  const sign = line[0] ?? " ";
  if (line === "*** End of File") {
    if (open !== undefined) open.atEnd = true;
    return open !== undefined;
  }
  if (line.startsWith("\\")) return open !== undefined;
  if (!" +-".includes(sign)) return false;
  const hunk = open ?? { line: undefined, header: "", old: [], fresh: [], atEnd: false };
  if (open === undefined) hunks.push(hunk);
  if (sign !== "+") hunk.old.push(line.slice(1));
  if (sign !== "-") hunk.fresh.push(line.slice(1));
  return true;
};

/** Parses a unified diff only by the signs at the starts of lines. */
export const parseLoosely = (text: string, strip: 0 | 1): Parsed => {
  const parts: FilePart[] = [];
  const lines = text.split("\n");
  const name = (line: string) => {
    const path = line.slice(4).split("\t")[0]?.trim() ?? "";
    return path === "/dev/null" ? undefined : path.replace(strip === 1 ? /^[a-z]\// : /^$/, "");
  };
  let hunks: Hunk[] | undefined;
  const lastText = lines.findLastIndex((line) => line.trim() !== "");
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] ?? "";
    const next = lines[at + 1] ?? "";
    if (line.startsWith("--- ") && next.startsWith("+++ ")) {
      const [from, to] = [name(line), name(next)];
      hunks = [];
      if (from === undefined && to === undefined) return { refused: "Expected a file name in the patch, got none." };
      if (to === undefined) parts.push({ kind: "delete", path: from ?? "" });
      else if (from === undefined) parts.push({ kind: "add", path: to, text: "" });
      else parts.push({ kind: "update", path: from, to, hunks });
      at += 1;
      continue;
    }
    if (/^(diff --git |index |new file |deleted file |old mode |new mode )/.test(line)) hunks = undefined;
    if (hunks === undefined) continue;
    if (line === "" && at > lastText) break;
    if (!hunkLine(hunks, line)) hunks = undefined;
    const part = parts.at(-1);
    if (part?.kind === "add" && line.startsWith("+")) part.text += `${line.slice(1)}\n`;
  }
  return parts;
};

/**
 * Applies all parts in memory, one after the other. The first part that does not fit is reported, with the file's lines
 * at that place.
 */
export const fitParts = (before: Tree, parts: readonly FilePart[], effort?: Effort): Fitted & { notes?: string[] } => {
  const tree: Tree = new Map(before);
  const notes: string[] = [];
  for (const part of parts) {
    const name = shown(part.path);
    const source = tree.get(part.path) ?? null;
    if (part.kind === "add") {
      if (source !== null) return { ok: false, why: `Expected nothing at ${name} yet, got a file there; update it.` };
      tree.set(part.path, { bytes: Buffer.from(part.text), executable: false });
      continue;
    }
    if (source === null) return { ok: false, why: `Expected a file at ${name}, got nothing there.` };
    if (part.kind === "delete") {
      tree.set(part.path, null);
      continue;
    }
    const text = textOf(source.bytes);
    if (text === undefined) return { ok: false, why: `Expected text in ${name}, got a binary file.` };
    if (part.to !== part.path && (tree.get(part.to) ?? null) !== null)
      return { ok: false, why: `Expected nothing at ${shown(part.to)} yet, got a file there.` };
    const fitted = fitHunks(name, text, part.hunks, effort);
    if ("why" in fitted) return { ok: false, why: fitted.why };
    notes.push(...fitted.notes);
    tree.set(part.path, null);
    tree.set(part.to, { bytes: Buffer.from(fitted.text), executable: source.executable });
  }
  return { ok: true, tree, notes };
};

const fitHunks = (
  name: string,
  text: string,
  hunks: readonly Hunk[],
  effort: Effort | undefined,
): { text: string; notes: string[] } | { why: string } => {
  // Adds a line end to the last line, since hunks consist of whole lines.
  const open = text !== "" && !text.endsWith("\n");
  const whole = open ? `${text}${text.includes("\r\n") ? "\r\n" : "\n"}` : text;
  const bom = whole.startsWith("\uFEFF") ? 1 : 0;
  const notes: string[] = [];
  const parts: string[] = [];
  let at = bom;
  const lineAt = lineCounter(whole);
  const headers = headersOf(whole);
  for (const [index, hunk] of hunks.entries()) {
    const which = `${name}, hunk ${index + 1} of ${hunks.length}`;
    const place = placeOf({ text: whole, start: at, above: lineAt(at) - 1, headers, effort }, hunk);
    if ("why" in place) return { why: `Rejected: ${which}: ${place.why}` };
    parts.push(whole.slice(index === 0 ? 0 : at, place.from), place.fresh);
    at = place.to;
    if (place.note !== undefined) notes.push(`${which}: ${place.note}`);
  }
  const made = parts.join("") + whole.slice(hunks.length === 0 ? 0 : at);
  return { text: open ? made.replace(/\r?\n$/, "") : made, notes };
};

type Spot = { from: number; to: number; fresh: string; note?: string } | { why: string };

const joined = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join("");

type Rest = {
  text: string;
  /** The offset from which on the hunk may match, and the number of lines above it. */
  start: number;
  above: number;
  headers: Headers;
  effort: Effort | undefined;
};

const placeOf = ({ text, start, above, headers, effort }: Rest, hunk: Hunk): Spot => {
  const rest = text.slice(start);
  const old = joined(hunk.old);
  const fresh = joined(hunk.fresh);
  const header = hunk.header === "" ? undefined : headers(hunk.header, start);
  if (hunk.old.length === 0) {
    const spot = hunk.atEnd || rest === "" ? text.length : header;
    if (spot === undefined)
      return { why: "it only adds lines and does not say where: give lines around them, or `*** End of File`." };
    const put = text.includes("\r\n") ? fresh.replaceAll(/\r?\n/g, "\r\n") : fresh;
    return { from: spot, to: spot, fresh: put };
  }
  const found = find(rest, old, fresh, { whole: true, ...(effort === undefined ? {} : { effort }) });
  const places = found.starts.flatMap((_, index) => (!hunk.atEnd || found.endOf(index) === rest.length ? [index] : []));
  const startOf = (index: number) => found.starts[index] ?? 0;
  const note =
    found.reading === "exact"
      ? {}
      : { note: found.reading === "line ends" ? "white space at line ends differed." : "it was indented otherwise." };
  const chosen = places.length <= 1 ? places[0] : chooseFrom();
  if (chosen !== undefined)
    return {
      from: start + startOf(chosen),
      to: start + found.endOf(chosen),
      fresh: found.freshFor(chosen),
      ...note,
    };
  if (places.length > 1) {
    const lines = places.slice(0, 20).map(startOf).map(lineCounter(rest));
    const say =
      header === undefined && hunk.header !== "" ? ` ${JSON.stringify(hunk.header)} is not one line of the file.` : "";
    return {
      why: `its lines stand at lines ${lines.map((line) => line + above).join(", ")}; give more of them, or a line above them after \`@@\`.${say}`,
    };
  }
  const before = text.slice(0, start);
  const [earlier] = find(before, old, fresh, { whole: true }).starts;
  if (earlier !== undefined)
    return {
      why: `its lines stand at line ${lineCounter(before)(earlier)}, above the hunk before it; hunks go from top to bottom.`,
    };
  return { why: nearestTo(hunk, rest, old, above) };

  function chooseFrom(): number | undefined {
    const lineAt = lineCounter(rest);
    const numbered = hunk.line === undefined ? undefined : hunk.line - above;
    const byNumber = places.find((index) => lineAt(startOf(index)) === numbered);
    return byNumber ?? (header === undefined ? undefined : places.find((index) => start + startOf(index) >= header));
  }
};

const nearestTo = (hunk: Hunk, rest: string, old: string, above: number): string => {
  const near = nearest(rest, old);
  const wanted = hunk.old
    .slice(0, 40)
    .map((line) => `  ${line}`)
    .join("\n");
  return `expected the lines\n${wanted}\n${
    near === undefined
      ? "and nothing in the file is like them: read the file."
      : `and the nearest are\n${numbered(near.lines.slice(0, 40), near.first + above)}${near.spacing ? "\nThey differ in white space only." : ""}`
  }`;
};

/**
 * The offset after the only line, from an offset on, that equals the header or, if none does, that contains it.
 * Undefined when there is no such line, or several.
 */
type Headers = (header: string, from: number) => number | undefined;

const headersOf = (text: string): Headers => {
  const known = new Map<string, { whole: number[]; part: number[] }>();
  const linesWith = (header: string) => {
    const lines = { whole: [] as number[], part: [] as number[] };
    let after = 0;
    for (const at of occurrencesOf(text, header)) {
      if (at < after) continue;
      const end = text.indexOf("\n", at);
      after = end < 0 ? text.length : end + 1;
      const line = text.slice(text.lastIndexOf("\n", at) + 1, after);
      (line.trim() === header ? lines.whole : lines.part).push(after);
    }
    return lines;
  };
  return (header, from) => {
    const { whole, part } = known.get(header) ?? linesWith(header);
    known.set(header, { whole, part });
    const [one, ...others] = inRest(whole, from);
    if (one !== undefined) return others.length === 0 ? one : undefined;
    const [only, ...more] = inRest(part, from);
    return more.length === 0 ? only : undefined;
  };
};

/**
 * The first two of ascending offsets that exceed another one: a line that ends exactly there belongs to the part above.
 */
const inRest = (ends: readonly number[], from: number): number[] => {
  let [low, high] = [0, ends.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ends[middle] ?? 0) > from) high = middle;
    else low = middle + 1;
  }
  return ends.slice(low, low + 2);
};
