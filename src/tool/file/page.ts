import { asBuffer, type Job } from "../../thread.ts";
import { maxOutput, shown } from "../result.ts";
import { kindOf } from "./binary-kind.ts";
import { countLines, numbered, textOf } from "./text.ts";

/** Renders one page of a text for `read`: a job for a thread if the text is long. */

export type Page = {
  path: string;
  bytes: Uint8Array;
  /** Whether the reader can run commands; it is then told which command shows what cannot be shown here. */
  commands?: boolean;
  /** Whether the text is the output of a command or a page, not a file: it is shown whatever bytes it contains. */
  output?: boolean;
  /** First line to show, from 1. */
  offset?: number | undefined;
  limit?: number | undefined;
  /** First character of each line to show, from 1. */
  column?: number | undefined;
};

const maxLine = 2000;

export const pageOf = (page: Page): { ok: boolean; text: string } => {
  const { path, offset = 1, limit = 2000, column = 1 } = page;
  const bytes = asBuffer(page.bytes);
  const text = page.output === true ? bytes.toString("utf8") : textOf(bytes);
  if (text === undefined) return { ok: true, text: `${shown(path)} is ${kindOf(bytes, page.commands === true)}.` };
  const count = countLines(bytes);
  if (offset > count)
    return {
      ok: false,
      text: `Expected offset of at most ${count}, the number of lines in ${shown(path)}, got ${offset}.`,
    };
  const lines: string[] = [];
  let size = 0;
  for (let at = startOf(text, offset); lines.length < limit && at < text.length; ) {
    const end = text.indexOf("\n", at);
    const line = text.slice(at, end < 0 ? text.length : end);
    at = end < 0 ? text.length : end + 1;
    const from = column - 1;
    const left = line.length - from - maxLine;
    const cut =
      left > 0
        ? `${line.slice(from, from + maxLine)}… ${left} more characters, from column ${column + maxLine}`
        : line.slice(from);
    size += cut.length + 8;
    if (size > maxOutput && lines.length > 0) break;
    lines.push(cut);
  }
  const last = offset + lines.length - 1;
  const rest = last < count ? `\n… lines ${offset} to ${last} of ${count}; more: offset ${last + 1} …` : "";
  return { ok: true, text: numbered(lines, offset) + rest };
};

export const paging: Job<Page, { ok: boolean; text: string }> = { name: "page", run: pageOf };

/** The offset of an existing line. */
const startOf = (text: string, line: number): number => {
  let at = 0;
  for (let count = 1; count < line; count += 1) at = text.indexOf("\n", at) + 1;
  return at;
};
