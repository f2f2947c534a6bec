import type { LongText } from "../../protocol/text.ts";

/** Formats text, times, sizes and tables for a terminal. */

// CSI sequences; then strings (OSC, DCS, SOS, PM, APC) up to their terminator, or to the end of the text if it is
// missing; then every other escape. All in their 7-bit and 8-bit forms.
const escapes =
  // oxlint-disable-next-line no-control-regex -- to remove them is what it is for
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]?|(?:\u001b[\]PX^_]|[\u0090\u0098\u009d-\u009f])[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)?|\u001b[ -/]*[0-~]?/g;

/** Control characters except tab and newline, and characters that change the direction of text. */
const controls = /(?![\t\n])\p{Cc}|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** Text without anything that could control a terminal. */
export const clean = (text: string): string => text.replaceAll(escapes, "").replaceAll(controls, "");

/** The same text on one line of at most `width` characters. */
export const line = (text: string, width = 160): string => {
  const flat = clean(text).replaceAll(/\s+/g, " ").trim();
  return flat.length > width ? `${flat.slice(0, width - 1)}…` : flat;
};

export const firstLine = (text: string): string => clean(text).trim().split("\n")[0] ?? "";

/** The text of an event; of a very long one, only the beginning. */
export const textOf = (text: LongText): string => (typeof text === "string" ? text : text.head);

export const duration = (ms: number): string => {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
};

/** A duration in a single unit. */
export const ago = (ms: number): string => {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 86_400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} d`;
};

/** null: the price is unknown, which is not 0. */
export const money = (usd: number | null): string =>
  usd === null ? "unknown" : usd === 0 ? "$0" : usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;

/** The cost or, if it is unknown, the tokens of all requests and replies. */
export const spent = (usage: { inputTokens: number; outputTokens: number; costUSD: number | null }): string =>
  usage.costUSD === null
    ? `${count(usage.inputTokens)} tokens in, ${count(usage.outputTokens)} out, cost unknown`
    : `cost ${money(usage.costUSD)}`;

const count = (tokens: number): string =>
  tokens < 1000 ? String(tokens) : tokens < 1e6 ? `${(tokens / 1000).toFixed(1)}k` : `${(tokens / 1e6).toFixed(2)}M`;

/** Indents every line, and expands tabs, which would indent further. */
export const indented = (text: string): string => text.replaceAll("\t", "    ").replaceAll(/^(?=.)/gm, "  ");

export const bytes = (count: number): string => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = count < 1 ? 0 : Math.min(Math.floor(Math.log2(count) / 10), units.length - 1);
  return `${(count / 1024 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
};

/** Rows with aligned columns; the last column is not padded. */
export const table = (rows: readonly (readonly string[])[]): string => {
  const widths = (rows[0] ?? []).map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, at) => (at === row.length - 1 ? cell : cell.padEnd(widths[at] ?? 0)))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
};
