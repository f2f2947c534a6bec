import { ThreadLimit } from "../thread.ts";
import { FileRefused } from "../workspace/file/files.ts";
import { GitError } from "../workspace/git/git.ts";
import type { ToolContext, ToolResult } from "./tool.ts";

/** Longest tool result that reaches the model, in characters; a longer text is truncated to head and tail. */
export const maxOutput = 24_000;

/** Keeps head and tail of a long text, and states how much is missing and how to read it. */
export const truncateMiddle = (text: string, hint: string, max = maxOutput): string => {
  if (text.length <= max) return text;
  const half = Math.floor(max / 2);
  const missing = text.length - 2 * half;
  return `${text.slice(0, half)}\n… ${missing} characters left out; ${hint} …\n${text.slice(-half)}`;
};

/** Prefix of the path at which a call's whole output can be read. */
export const outputPath = "output:";

/**
 * Head and tail of a text of any length; the whole is kept for `read` and `search`. Bytes are UTF-8: of very many
 * bytes, only the shown part is decoded.
 */
export const truncatedResult = (
  text: string | Buffer,
  { callID }: Pick<ToolContext, "callID">,
): Omit<ToolResult, "exitCode"> => {
  const long = text.length > maxOutput;
  if (!long) return { outcome: "ok", output: typeof text === "string" ? text : text.toString("utf8") };
  const hint = wholeAt(callID);
  return {
    outcome: "ok",
    output: typeof text === "string" ? truncateMiddle(text, hint) : truncateBytes(text, hint),
    full: text,
  };
};

const wholeAt = (callID: string): string => `all of it: \`read\` or \`search\` path ${outputPath}${callID}`;

/**
 * Shortens a result for a model that has less room than `maxOutput`. If the text was cut before, the same cut is
 * widened, so that there is a single cut that counts everything missing and says where to read it.
 */
export const shortenedResult = (text: string, callID: string, max: number): string => {
  if (text.length <= max) return text;
  const hint = wholeAt(callID);
  const end = text.indexOf(` left out; ${hint} …\n`);
  const begin = text.lastIndexOf("\n… ", end);
  const [, count, unit] = end < 0 ? [] : (/^(\d{1,15}) (\w{1,20})$/.exec(text.slice(begin + 3, end)) ?? []);
  if (count === undefined || unit === undefined) return truncateMiddle(text, hint, max);
  const head = text.slice(0, begin);
  const tail = text.slice(text.indexOf("\n", end) + 1);
  const half = Math.floor(max / 2);
  const kept = {
    head: head.slice(0, Math.max(half, max - tail.length)),
    tail: tail.slice(-Math.max(half, max - head.length)),
  };
  const gone = head.slice(kept.head.length) + tail.slice(0, tail.length - kept.tail.length);
  const missing = Number(count) + (unit === "bytes" ? Buffer.byteLength(gone) : gone.length);
  return `${kept.head}\n… ${missing} ${unit} left out; ${hint} …\n${kept.tail}`;
};

/** The part of the room that each text gets: short texts get all they need, the others equal parts of the rest. */
export const shareRoom = (lengths: readonly number[], room: number, least: number): number[] => {
  let left = room;
  let waiting = lengths.length;
  const shares = lengths.map(() => 0);
  for (const [index, length] of [...lengths.entries()].toSorted((a, b) => a[1] - b[1])) {
    const share = Math.max(least, Math.min(length, Math.floor(left / waiting)));
    shares[index] = share;
    left -= Math.min(length, share);
    waiting -= 1;
  }
  return shares;
};

const truncateBytes = (bytes: Buffer, hint: string): string => {
  const half = Math.floor(maxOutput / 2);
  // Characters that a cut would split are left out entirely.
  const head = new TextDecoder().decode(bytes.subarray(0, half), { stream: true });
  let start = bytes.length - half;
  while (((bytes[start] ?? 0) & 0xc0) === 0x80) start += 1;
  const missing = start - Buffer.byteLength(head);
  return `${head}\n… ${missing} bytes left out; ${hint} …\n${bytes.toString("utf8", start)}`;
};

/** The output of a program without trailing white space. */
export const withoutEnd = (bytes: Buffer): Buffer => {
  let end = bytes.length;
  while (end > 0 && (bytes[end - 1] === 0x0a || bytes[end - 1] === 0x20 || bytes[end - 1] === 0x0d)) end -= 1;
  return bytes.subarray(0, end);
};

export const ok = (output: string): ToolResult => ({ outcome: "ok", output });

export const failed = (output: string): ToolResult => ({ outcome: "error", output });

/**
 * Runs `work` and turns refusals of the workspace into words for the model. The signal's reason and bugs are rethrown.
 */
export const answer = async (signal: AbortSignal, work: () => Promise<ToolResult>): Promise<ToolResult> => {
  signal.throwIfAborted();
  try {
    const result = await work();
    signal.throwIfAborted();
    return result;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof FileRefused) return failed(`${error.message}.`);
    if (error instanceof ThreadLimit) return failed(`${error.message}. Nothing was done: do it in smaller parts.`);
    if (error instanceof GitError)
      return failed(truncateMiddle(error.stderr.trim() || error.message, "the rest is more of it"));
    throw error;
  }
};

/** A path on one line: as a JSON string if it has control characters or begins with a quote. */
export const shown = (path: string): string => (/^"|\p{Cc}/u.test(path) ? JSON.stringify(path) : path);

/** As many of the names as fit into `room` characters, whole and in their order, with a mark if there are more. */
export const namesWithin = (names: readonly string[], room: number, between: string): string => {
  let length = 0;
  const fitting = names.findIndex((name) => (length += name.length + between.length) > room);
  return fitting < 0 ? names.join(between) : `${names.slice(0, fitting).join(between)} … and more`.trim();
};

export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;

/**
 * Marks text of foreign origin, so that it informs the model and is not taken as an instruction. A mitigation, not a
 * protection.
 */
export const markForeign = (origin: string, text: string): string =>
  `<data from=${JSON.stringify(origin)}>\n${text.replaceAll(/<(\/?data\b)/gi, "<\u200B$1")}\n</data>`;
