import { z } from "zod";
import { FileRefused, type Files } from "../../workspace/file/files.ts";
import { installedNote } from "./installed.ts";
import { noOutput } from "./read.ts";
import { inThread, type Job } from "../../thread.ts";
import { type Matches, naming, rendering, type ShownMatches } from "./matches.ts";
import { searchFiles, searchText } from "./ripgrep.ts";
import { answer, failed, ok, outputPath } from "../result.ts";
import { type Tool, type ToolResult, hiddenFromModels } from "../tool.ts";

const input = z.strictObject({
  pattern: z.string().min(1).max(8192).describe("Regular expression; `(?i)`: any case"),
  path: z.string().optional().describe("File, folder or `output:…`; default: all"),
  glob: z.string().min(1).optional().describe("e.g. `src/**/*.ts`, `!dist/**`"),
  type: z
    .string()
    .regex(/^[a-z0-9]{1,20}$/)
    .optional()
    .meta(hiddenFromModels),
  literal: z.boolean().optional(),
  mode: z.enum(["lines", "files", "count"]).optional().describe("Default lines"),
  context: z.number().int().min(0).max(20).optional(),
  offset: z.number().int().min(1).max(1e6).optional(),
  limit: z.number().int().min(1).max(1000).optional().describe("Default 200"),
});
type Input = z.infer<typeof input>;

export const search: Tool<Input> = {
  name: "search",
  description: "Searches file contents with ripgrep, in hidden files too, not in ignored or binary ones.",
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
        const { output, stopped } = found;
        return rendered({ output, mode, query, stopped, name: query.path }, context.signal);
      }
      const installed = query.path === undefined ? undefined : installedNote(context, query.path);
      if (installed !== undefined) return failed(installed);
      const path = query.path === undefined ? "" : await within(files, query.path);
      const place = ["--", path === "" ? "./" : `./${path}`];
      const found = await searchFiles(context.workspace, [...optionsOf(query), ...place], context.signal);
      if (found.error !== undefined) return failed(found.error);
      const { output, stopped } = found;
      if (output.length === 0 && stopped === undefined && query.glob !== undefined) {
        const listed = await searchFiles(context.workspace, [...filesOf(query), "--files", ...place], context.signal);
        if (listed.error === undefined && listed.stopped === undefined && listed.output.length === 0)
          return ok(noFile(query.glob, path));
      }
      const allowed = await readable(files, await work(naming, { output, mode }, context.signal));
      return rendered({ output, mode, query: { ...query, path }, stopped, allowed }, context.signal);
    }),
};

/** The path in the form for a command line, without links: ripgrep would follow a link named there. */
const within = async (files: Files, path: string): Promise<string> => {
  try {
    await files.expectFolder(path);
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

const noFile = (glob: string, path: string): string =>
  `No file${path === "" ? "" : ` in ${path}`} fits the glob \`${glob}\`, so nothing was searched.${glob.includes("/") ? " One with a `/` in it begins at the project's root." : ""}`;

/** ripgrep's options that select the files to search. */
const filesOf = ({ glob, type }: Pick<Input, "glob" | "type">): string[] => [
  "--no-config",
  "--color=never",
  "--hidden",
  "--no-follow",
  "--no-require-git",
  "--no-ignore-global",
  "--sort=path",
  "--null",
  "--max-filesize=16M",
  ...(type === undefined ? [] : [`--type=${type}`]),
  ...(glob === undefined ? [] : [`--glob=${glob}`]),
  // Last, because the last matching glob counts.
  "--glob=!**/.git/**",
  "--glob=!**/.git",
];

const optionsOf = ({ pattern, glob, type, literal = false, mode = "lines", context = 0 }: Input): string[] => [
  ...filesOf({ ...(glob === undefined ? {} : { glob }), ...(type === undefined ? {} : { type }) }),
  "--with-filename",
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

/** The files with a match that the file tools do not refuse to read; `Files` decides. */
const readable = async (files: Files, paths: readonly string[]): Promise<string[]> => {
  const kept: string[] = [];
  for (const path of paths) {
    try {
      await files.read(path, 0).catch(unlessTooBig);
      kept.push(path);
    } catch (error) {
      if (!(error instanceof FileRefused)) throw error;
    }
  }
  return kept;
};

/** Most bytes of ripgrep's output that are parsed here rather than in a thread. */
const mostAtOnce = 64 * 1024;

const work = async <I extends Matches, O>(job: Job<I, O>, input: I, signal: AbortSignal): Promise<O> =>
  input.output.length <= mostAtOnce ? job.run(input) : inThread(job, input, { signal });

const rendered = async (shownMatches: ShownMatches, signal: AbortSignal): Promise<ToolResult> => {
  const { ok: found, text } = await work(rendering, shownMatches, signal);
  return found ? ok(text) : failed(text);
};
