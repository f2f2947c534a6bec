import { pino } from "pino";
import { mapStrings, type Secrets } from "./redact.ts";

/** The logger that every layer gets. It writes JSON lines to stderr; stdout belongs to the command line. */
export type Log = {
  debug(data: object, message: string): void;
  info(data: object, message: string): void;
  warn(data: object, message: string): void;
  error(data: object, message: string): void;
};

/** The most bytes of lines that are kept while none can be written, as on a full disk. */
const mostKept = 256 * 1024;

/**
 * `dest`: a file path, or a file descriptor; stderr by default. A line that cannot be written causes no error: it is
 * written before the next line that can be, or counted as lost.
 */
export const createLog = (level: string, dest: number | string = 2): Log => {
  const out = pino.destination({ dest, sync: true, maxLength: mostKept });
  const log = pino(
    { level, base: null, timestamp: pino.stdTimeFunctions.isoTime },
    { write: (line) => out.write(safe(line)) },
  );
  let lost = 0;
  // Without a listener, an error would be thrown at the caller that logs.
  out.on("error", () => {});
  out.on("drop", () => {
    lost += 1;
  });
  out.on("drain", () => {
    if (lost === 0) return;
    const lines = lost;
    lost = 0;
    log.warn({ lines }, "lines of this log could not be written and are lost");
  });
  return log;
};

export const silent: Log = { debug() {}, info() {}, warn() {}, error() {} };

/** Wraps a log so that no secret reaches it, neither a known one nor text in the form of one. */
export const guardLog = (log: Log, secrets: Secrets): Log => {
  const say = (level: keyof Log) => (data: object, message: string) =>
    log[level](mapStrings(data, secrets.all), secrets.all(message));
  return { debug: say("debug"), info: say("info"), warn: say("warn"), error: say("error") };
};

const longestLine = 8192;
const longestText = 1024;

/**
 * Bounds a line and makes it safe to print: escapes control characters that JSON leaves as they are, and that a
 * terminal would obey.
 */
const safe = (line: string): string => {
  const short = line.length <= longestLine ? line : `${JSON.stringify(shortened(JSON.parse(line)))}\n`;
  return short.replace(
    /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
};

/** Shortens a line: keeps its short values, and the beginnings of the long ones. */
const shortened = (line: unknown): unknown => {
  let room = longestLine / 2;
  return Object.fromEntries(
    Object.entries(line as object).flatMap(([name, value]) => {
      const text = typeof value === "string" ? value : JSON.stringify(value);
      if (text.length <= 64) return [[name, value as unknown]];
      const kept = text.slice(0, Math.max(0, Math.min(longestText, room)));
      room -= kept.length;
      return [[name, `${kept}… ${text.length - kept.length} characters left out`]];
    }),
  );
};
