import picocolors from "picocolors";
import type { LongText } from "../../protocol/text.ts";

/** How things look on a terminal. Everything that came from the service goes through `clean` before it is printed. */

type Colors = ReturnType<typeof picocolors.createColors>;

export type Screen = {
  /** A person at a terminal who wants colours and a moving last line; else plain lines. */
  rich: boolean;
  colors: Colors;
  /** One or more whole lines, for people. */
  say(text: string): void;
  /** The last line, plain text, replaced by the next; nothing on a plain screen. undefined removes it. */
  status(text: string | undefined): void;
};

// CSI; then strings (OSC, DCS, SOS, PM, APC) up to their end, or to the end of the text where somebody left it out;
// then every other escape. In their 7-bit and 8-bit forms.
const escapes =
  // oxlint-disable-next-line no-control-regex -- to remove them is what it is for
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]?|(?:\u001b[\]PX^_]|[\u0090\u0098\u009d-\u009f])[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)?|\u001b[ -/]*[0-~]?/g;
/** Control characters but tab and newline, and the marks that turn the direction of text. */
const controls = /(?![\t\n])\p{Cc}|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** Text that cannot steer a terminal. */
export const clean = (text: string): string => text.replaceAll(escapes, "").replaceAll(controls, "");

/** The same on one line, at most `width` characters. */
export const line = (text: string, width = 160): string => {
  const flat = clean(text).replaceAll(/\s+/g, " ").trim();
  return flat.length > width ? `${flat.slice(0, width - 1)}…` : flat;
};

export const firstLine = (text: string): string => clean(text).trim().split("\n")[0] ?? "";
export const lastLine = (text: string): string => clean(text).trimEnd().split("\n").at(-1) ?? "";

/** A text of the log; of a very long one its first characters. */
export const textOf = (text: LongText): string => (typeof text === "string" ? text : text.head);

export const duration = (ms: number): string => {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
};

/** null is a price nobody knows, which is not 0. */
export const money = (usd: number | null): string =>
  usd === null ? "unknown" : usd === 0 ? "$0" : usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;

export const bytes = (count: number): string => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = count < 1 ? 0 : Math.min(Math.floor(Math.log2(count) / 10), units.length - 1);
  return `${(count / 1024 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
};

/** Rows as columns of equal width; the last column is not padded. */
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

/** `plain`: NO_COLOR, CI and the like, said by the caller; a stream that is no terminal is plain anyway. */
export const createScreen = (stream: NodeJS.WriteStream, plain: boolean): Screen => {
  const rich = !plain && stream.isTTY;
  let last: string | undefined;
  const wipe = () => {
    if (last !== undefined) stream.write("\r\u001b[2K");
  };
  const colors = picocolors.createColors(rich);
  const draw = () => {
    // A line that wraps could not be wiped. Some terminals say they have 0 columns.
    if (last !== undefined) stream.write(colors.dim(last.slice(0, (stream.columns || 80) - 1)));
  };
  return {
    rich,
    colors,
    say(text) {
      wipe();
      stream.write(`${text}\n`);
      draw();
    },
    status(text) {
      if (!rich) return;
      wipe();
      last = text;
      draw();
    },
  };
};

/** Waits for something that may take a while: after half a second a terminal shows what it is, and for how long now. */
export const during = async <T>(screen: Screen, what: string, work: Promise<T>): Promise<T> => {
  const began = performance.now();
  const timer = setInterval(() => screen.status(`${duration(performance.now() - began)}  ${what} …`), 500);
  try {
    return await work;
  } finally {
    clearInterval(timer);
    screen.status(undefined);
  }
};
