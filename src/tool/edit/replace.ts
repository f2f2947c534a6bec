import { asBuffer, type Job } from "../../thread.ts";
import { linesOf, nearest, numbered, textOf } from "../file/text.ts";
import { counted, shown, truncateMiddle } from "../result.ts";
import { differenceOf } from "./difference.ts";
import { type Effort, find, type PassageMatch, type Reading, TooMuch } from "./match.ts";
import { firstIndexOf, lineCounter } from "./occurrence.ts";

/**
 * The edits of one call, in memory. A job for a thread, because a large file takes longer than the service may be
 * blocked.
 */

export type One = { old: string; new: string; all?: boolean | undefined };

export type Edits = {
  path: string;
  bytes: Uint8Array;
  edits: readonly One[];
  /** Return "too much" rather than take long. */
  little?: boolean;
};

export type Edited = { bytes: Uint8Array; summary: string } | { failed: string } | "too much";

const littleEffort: Effort = { maxEditLength: 200, timeout: 10 };
const diffEffort: Effort = { maxEditLength: 2000, timeout: 500 };

/** Largest result in characters, so that a few bytes do not expand without limit. */
const mostResult = 64 * 1024 * 1024;

const readings: Record<Exclude<Reading, "exact">, string> = {
  "line ends": "Your `old` differed in white space at line ends; lines you did not change keep theirs.",
  indentation: "Your `old` was indented otherwise; what you added was indented like the lines around it.",
};

export const applyEdits = (request: Edits): Edited => {
  try {
    return applied(request);
  } catch (error) {
    if (error instanceof TooMuch) return "too much";
    throw error;
  }
};

export const editing: Job<Edits, Edited> = { name: "edit", run: applyEdits };

const applied = ({ path, bytes, edits, little = false }: Edits): Edited => {
  const before = textOf(asBuffer(bytes));
  if (before === undefined)
    return {
      failed: `Expected a text file at ${shown(path)}, got a binary file of ${counted(bytes.length, "byte")}.`,
    };
  let after = before;
  let matches = 0;
  const notes: string[] = [];
  for (const [index, change] of edits.entries()) {
    const which = edits.length === 1 ? "" : `Edit ${index + 1} of ${edits.length}: `;
    // The other edits are no less clear because of this one.
    if (change.old === change.new) {
      notes.push(`${which}Left out: its \`old\` and \`new\` are the same.`);
      continue;
    }
    const made = replaceIn(after, change, little ? littleEffort : undefined);
    if ("why" in made) return { failed: `${which}${made.why(shown(path))}` };
    after = made.text;
    matches += made.count;
    if (made.reading !== "exact") notes.push(`${which}${readings[made.reading]}`);
  }
  if (matches === 0)
    return {
      failed: `Nothing was changed in ${shown(path)}: \`old\` and \`new\` are the same${edits.length === 1 ? "" : " in every edit"}.`,
    };
  if (after === before) return { failed: `The edits undo each other: ${shown(path)} would stay as it is.` };
  const many = matches === 1 ? "1 match" : `${matches} matches`;
  const made = differenceOf(path, before, after, little ? littleEffort : diffEffort);
  if (made === undefined && little) throw new TooMuch();
  const lines = made === undefined ? "" : ` (+${made.added} -${made.removed})`;
  const summary = [`Replaced ${many} in ${shown(path)}${lines}.`, ...notes];
  const places = made === undefined || made.places === "" ? [] : [made.places];
  return {
    bytes: Buffer.from(after),
    summary: truncateMiddle([...summary, ...places].join("\n"), "read the file to see the rest", 8000),
  };
};

type Made = { text: string; count: number; reading: Reading } | { why: (path: string) => string };

/** Keeps a byte order mark at the start. Pure; throws `TooMuch` where it would take more than the given effort. */
export const replaceIn = (text: string, change: One, effort?: Effort): Made => {
  if (!text.startsWith("\uFEFF") || change.old.startsWith("\uFEFF")) return replace(text, change, effort);
  const made = replace(text.slice(1), change, effort);
  return "why" in made ? made : { ...made, text: `\uFEFF${made.text}` };
};

const replace = (text: string, change: One, effort: Effort | undefined): Made => {
  const { old, new: fresh, all = false } = change;
  const match = find(text, old, fresh, { apart: all, ...(effort === undefined ? {} : { effort }) });
  const { starts, reading } = match;
  if (starts.length === 0 && old.endsWith("\n") && text !== "" && !text.endsWith("\n")) {
    // The last line of the file has no line end, and must not get one.
    const made = replace(`${text}\n`, change, effort);
    if (!("why" in made)) return { ...made, text: made.text.replace(/\r?\n$/, "") };
  }
  if (starts.length === 0) return { why: (path) => miss(path, text, old, fresh) };
  if (starts.length > 1 && (!all || reading === "indentation")) return { why: (path) => several(path, text, match) };
  const size = text.length + starts.length * (fresh.length - old.length);
  if (size > mostResult)
    return {
      why: (path) =>
        `Expected at most ${mostResult} characters in ${path} afterwards, got ${size}; nothing was changed.`,
    };
  return { text: replaced(text, match), count: starts.length, reading };
};

/** Pieces are joined in batches, because very many short pieces take much more memory than the text. */
const joinAt = 50_000;

const replaced = (text: string, { starts, endOf, freshFor }: PassageMatch): string => {
  const joined: string[] = [];
  let pieces: string[] = [];
  let at = 0;
  for (const [index, from] of starts.entries()) {
    pieces.push(text.slice(at, from), freshFor(index));
    at = endOf(index);
    if (pieces.length < joinAt) continue;
    joined.push(pieces.join(""));
    pieces = [];
  }
  return joined.join("") + pieces.join("") + text.slice(at);
};

const several = (path: string, text: string, { starts, reading }: PassageMatch): string => {
  const lines = starts.slice(0, 20).map(lineCounter(text));
  const how = reading === "indentation" ? " as the file has them" : ", or set `all`";
  return `Expected exactly one match in ${path}, got ${starts.length}, at lines ${lines.join(", ")}${
    starts.length > 20 ? ", …" : ""
  }. Give more lines around the one you mean${how}; nothing was changed.`;
};

const miss = (path: string, text: string, old: string, fresh: string): string => {
  const none = `Expected the text in ${path}, got no match; nothing was changed.`;
  const there = fresh.trim().length < 3 ? -1 : firstIndexOf(text, fresh);
  const done = there < 0 ? "" : ` The new text is there already, at line ${lineCounter(text)(there)}.`;
  const near = nearest(text, old);
  if (near === undefined) return `${none}${done} Nothing in the file is like it: read the file.`;
  const why = near.spacing ? "They differ in white space only." : "Copy the text from there.";
  const lines = numbered(near.lines.slice(0, linesOf(old).length), near.first);
  return truncateMiddle(`${none}${done} The nearest lines:\n${lines}\n${why}`, "read the file", 6000);
};
