import { asBuffer, type Job } from "../../thread.ts";
import { decodePath } from "../../workspace/file/files.ts";
import { maxOutput, shown } from "../result.ts";

/** Parses ripgrep's output and renders a page of it: jobs for a thread if the output is long. */

export type Mode = "lines" | "files" | "count";

export type Matches = { output: Uint8Array; mode: Mode };

export type ShownMatches = Matches & {
  query: {
    path?: string | undefined;
    offset?: number | undefined;
    limit?: number | undefined;
    context?: number | undefined;
  };
  /** Why there may be more matches than `output` holds; undefined: it is complete. */
  stopped: string | undefined;
  /** Files whose matches may be shown; undefined: all. */
  allowed?: readonly string[];
  /** Shown instead of the name in ripgrep's output. */
  name?: string | undefined;
};

type Rendered = { ok: boolean; text: string };

/** Most files with a match that are considered. */
const maxFiles = 2000;

/** The files with a match, in order. */
export const naming: Job<Matches, string[]> = {
  name: "match names",
  run: ({ output, mode }) => [
    ...new Set(
      groupsOf(asBuffer(output), mode)
        .slice(0, maxFiles)
        .map(({ path }) => path),
    ),
  ],
};

export const rendering: Job<ShownMatches, Rendered> = {
  name: "match page",
  run(request) {
    const { output, mode, allowed, name } = request;
    const groups = groupsOf(asBuffer(output), mode);
    if (name !== undefined)
      return render(
        groups.map((group) => ({ ...group, path: name })),
        request,
      );
    const kept = new Set(allowed);
    return render(
      allowed === undefined ? groups : groups.slice(0, maxFiles).filter(({ path }) => kept.has(path)),
      request,
    );
  },
};

type Line = { number: string; match: boolean; text: string };
/** `count` is set in mode count, `lines` in mode lines. */
type Group = { path: string; count: string; lines: Line[] };

/** Parses records `path NUL rest newline`, or without a rest `path NUL`. A truncated last record is dropped. */
const groupsOf = (output: Buffer, mode: Mode): Group[] => {
  const groups: Group[] = [];
  for (let at = 0; at < output.length; ) {
    const nul = output.indexOf(0, at);
    if (nul < 0) break;
    const path = decodePath(output.subarray(at, nul)).replace(/^\.\//, "");
    const end = mode === "files" ? nul : output.indexOf(10, nul);
    if (end < 0) break;
    const rest = output
      .subarray(nul + 1, end)
      .toString("utf8")
      .replace(/\r$/, "");
    at = end + 1;
    if (groups.at(-1)?.path !== path) groups.push({ path, count: mode === "count" ? rest : "", lines: [] });
    const [, number = "", sign, text = ""] = mode === "lines" ? (/^(\d+)([:-])([\s\S]*)$/.exec(rest) ?? []) : [];
    if (number !== "") groups.at(-1)?.lines.push({ number, match: sign === ":", text });
  }
  return groups;
};

/** Renders one page of matches or files: as many as fit, starting at `offset`. */
const render = (groups: readonly Group[], { mode, query, stopped }: ShownMatches): Rendered => {
  const { offset = 1, limit = 200, path = "", context = 0 } = query;
  const size = (group: Group) => (mode === "lines" ? group.lines.filter(({ match }) => match).length : 1);
  const total = groups.reduce((sum, group) => sum + size(group), 0);
  if (total === 0)
    return stopped === undefined
      ? good(`No match in ${path === "" ? "the project" : shown(path)}.`)
      : bad(`No match so far: ${stopped}; narrow it with path, glob or type.`);
  if (offset > total) return bad(`Expected offset of at most ${total}, the number of ${nouns[mode]}, got ${offset}.`);

  const out: string[] = [];
  let room = maxOutput;
  let before = 0;
  let last = offset - 1;
  /** Returns false when the page is full. The first entry always fits. */
  const put = (text: string): boolean => {
    room -= text.length + 1;
    if (room < 0 && last >= offset) return false;
    out.push(text.slice(0, maxOutput));
    return true;
  };
  for (const group of groups) {
    const count = size(group);
    if (before + count >= offset && last < offset + limit - 1)
      if (mode === "lines") {
        const page = linesIn(group, context, offset - before, offset + limit - 1 - before);
        if (!put(shown(group.path))) break;
        let whole = true;
        for (const { number, match, text } of page) {
          whole = put(`  ${number}${match ? ":" : "-"} ${text}`);
          if (!whole) break;
          if (match) last += 1;
        }
        if (!whole) break;
      } else {
        if (!put(mode === "count" ? `${group.count}\t${shown(group.path)}` : shown(group.path))) break;
        last += 1;
      }
    before += count;
  }
  // A file name without any of its lines is useless.
  if (mode === "lines" && !(out.at(-1) ?? "").startsWith("  ")) out.pop();
  if (last < total || stopped !== undefined || offset > 1) {
    const of = stopped === undefined && groups.length < maxFiles ? ` of ${total}` : "";
    const more = last < total ? `; more: offset ${last + 1}, or narrow it with path, glob or type` : "";
    const why = stopped === undefined ? "" : `; ${stopped}`;
    out.push(`… ${nouns[mode]} ${offset} to ${last}${of}${more}${last < total ? "" : why} …`);
  }
  return good(out.join("\n"));
};

const nouns: Record<Mode, string> = { lines: "matches", files: "files", count: "files" };

/** The lines of matches number `from` to `to` of a file, counted from 1, with their context. */
const linesIn = (group: Group, context: number, from: number, to: number): Group["lines"] => {
  let count = 0;
  const wanted = group.lines.flatMap(({ match, number }) => {
    if (match) count += 1;
    return match && count >= from && count <= to ? [Number(number)] : [];
  });
  const numbers = new Set(wanted);
  let next = 0;
  return group.lines.filter(({ match, number }) => {
    const line = Number(number);
    if (match) return numbers.has(line);
    while (next < wanted.length - 1 && (wanted[next] ?? 0) + context < line) next += 1;
    return Math.abs((wanted[next] ?? -context - 1) - line) <= context;
  });
};

const good = (text: string): Rendered => ({ ok: true, text });
const bad = (text: string): Rendered => ({ ok: false, text });
