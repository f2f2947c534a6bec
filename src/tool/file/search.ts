import { z } from "zod";
import { FileRefused, type Files } from "../../workspace/file/files.ts";
import { noOutput } from "./read.ts";
import { type Group, groupsOf, searchFiles, searchText } from "./ripgrep.ts";
import { answer, failed, maxOutput, ok, outputPath, shown } from "../result.ts";
import { type Tool, type ToolResult, builtinOnly } from "../tool.ts";

const input = z.strictObject({
  pattern: z.string().min(1).max(8192).describe("Regular expression; `(?i)` in front ignores case"),
  path: z.string().optional().describe("File, folder or `output:…`; default: all"),
  glob: z.string().min(1).optional().describe("e.g. `*.ts`, `src/**/*.test.ts`, `!dist/**`"),
  type: z
    .string()
    .regex(/^[a-z0-9]{1,20}$/)
    .optional()
    .meta(builtinOnly),
  literal: z.boolean().optional().describe("The pattern is plain text"),
  mode: z.enum(["lines", "files", "count"]).optional().describe("Default lines"),
  context: z.number().int().min(0).max(20).optional().describe("Lines around each match"),
  offset: z.number().int().min(1).max(1e6).optional().describe("First match (or file), from 1"),
  limit: z.number().int().min(1).max(1000).optional().describe("Default 200"),
});
type Input = z.infer<typeof input>;
type Mode = NonNullable<Input["mode"]>;

/** Maximum number of files checked for whether they may be read. */
const maxFiles = 2000;

export const search: Tool<Input> = {
  name: "search",
  description:
    "Searches file contents with ripgrep; hidden files too, not ignored or binary ones. " +
    "Returns matching lines by file with their numbers, or files or counts; when there is more, the `offset` to go on.",
  input,
  effect: "none",
  run: (query, context) =>
    answer(context.signal, async () => {
      const { files } = context.workspace;
      const mode = query.mode ?? "lines";
      if (query.path?.startsWith(outputPath) === true) {
        const kept = await context.kept(query.path.slice(outputPath.length));
        if (kept === undefined) return failed(noOutput(query.path));
        const { pattern, literal, context: around } = query;
        const plain = { pattern, mode, ...(literal === undefined ? {} : { literal }) };
        const options = optionsOf(around === undefined ? plain : { ...plain, context: around });
        const found = await searchText(kept, options, context.signal);
        if (found.error !== undefined) return failed(found.error);
        const groups = groupsOf(found.output, mode).map((group) => ({ ...group, path: query.path ?? "" }));
        return render(groups, query, found.stopped);
      }
      const path = query.path === undefined ? "" : await within(files, query.path);
      const options = [...optionsOf(query), "--", path === "" ? "./" : `./${path}`];
      const found = await searchFiles(context.workspace, options, context.signal);
      if (found.error !== undefined) return failed(found.error);
      return render(await allowed(files, groupsOf(found.output, mode)), { ...query, path }, found.stopped);
    }),
};

/** The path in the form for a command line, without links: ripgrep would follow a link named there. */
const within = async (files: Files, path: string): Promise<string> => {
  try {
    await files.list(path, { limit: 1 });
  } catch (error) {
    if (!(error instanceof FileRefused) || error.kind !== "not-a-file") throw error;
    await files.read(path, 0).catch(unlessTooBig);
  }
  const inside = files.inside(path);
  return inside
    .split("/")
    .filter((name) => name !== "" && name !== ".")
    .join("/");
};

/** A file that is refused only for its size may be searched. */
const unlessTooBig = (error: unknown): undefined => {
  if (error instanceof FileRefused && error.kind === "too-big") return undefined;
  throw error;
};

const optionsOf = ({ pattern, glob, type, literal = false, mode = "lines", context = 0 }: Input): string[] => [
  "--no-config",
  "--color=never",
  "--hidden",
  "--no-follow",
  "--no-require-git",
  "--no-ignore-global",
  "--sort=path",
  "--null",
  "--with-filename",
  "--max-filesize=16M",
  ...(type === undefined ? [] : [`--type=${type}`]),
  ...(glob === undefined ? [] : [`--glob=${glob}`]),
  // Last, because the last matching glob counts.
  "--glob=!**/.git/**",
  "--glob=!**/.git",
  ...(literal ? ["--fixed-strings"] : []),
  ...(mode === "files" ? ["--files-with-matches"] : []),
  ...(mode === "count" ? ["--count-matches"] : []),
  ...(mode === "lines"
    ? [
        "--line-number",
        "--no-heading",
        "--max-columns=400",
        "--max-columns-preview",
        "--no-context-separator",
        `--context=${context}`,
      ]
    : []),
  `--regexp=${pattern}`,
];

/** Leaves out the files that the file tools refuse to read; `Files` decides. */
const allowed = async (files: Files, groups: readonly Group[]): Promise<Group[]> => {
  const kept: Group[] = [];
  for (const group of groups.slice(0, maxFiles)) {
    try {
      await files.read(group.path, 0).catch(unlessTooBig);
      kept.push(group);
    } catch (error) {
      if (!(error instanceof FileRefused)) throw error;
    }
  }
  return kept;
};

/** One page of matches, or files, from `offset` on, as many as fit. */
const render = (groups: readonly Group[], query: Input, stopped: string | undefined): ToolResult => {
  const { mode = "lines", offset = 1, limit = 200, path = "" } = query;
  const size = (group: Group) => (mode === "lines" ? group.lines.filter(({ match }) => match).length : 1);
  const total = groups.reduce((sum, group) => sum + size(group), 0);
  if (total === 0)
    return stopped === undefined
      ? ok(`No match in ${path === "" ? "the project" : shown(path)}.`)
      : failed(`No match so far: ${stopped}; narrow it with path, glob or type.`);
  if (offset > total)
    return failed(`Expected offset of at most ${total}, the number of ${nouns[mode]}, got ${offset}.`);

  const out: string[] = [];
  let room = maxOutput;
  let before = 0;
  let last = offset - 1;
  /** false: the page is full. The first entry always fits. */
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
        const page = linesIn(group, query.context ?? 0, offset - before, offset + limit - 1 - before);
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
  return ok(out.join("\n"));
};

const nouns: Record<Mode, string> = { lines: "matches", files: "files", count: "files" };

/** The lines of a file's matches number `from` to `to`, counted from 1, with their context. */
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
