import { spawn } from "node:child_process";
import { rgPath } from "@vscode/ripgrep";
import { z } from "zod";
import { decodePath, FileRefused, type Files } from "../workspace/files.ts";
import { answer, counted, failed, maxOutput, ok, shown, type Tool } from "./tool.ts";

const input = z.strictObject({
  pattern: z.string().min(1).max(8192).describe("Regular expression (Rust syntax), or plain text with `literal`"),
  path: z.string().optional().describe("File or folder to search, relative to the project's root; default: all"),
  glob: z.string().min(1).optional().describe("Only files whose path matches, e.g. `*.ts` or `src/**/*.test.ts`"),
  literal: z.boolean().optional().describe("Take the pattern as plain text; default false"),
  mode: z
    .enum(["lines", "files", "count"])
    .optional()
    .describe("Matching lines (default), file names, or matches a file"),
  context: z.number().int().min(0).max(20).optional().describe("Lines around each match, for mode `lines`"),
});
type Input = z.infer<typeof input>;

const timeoutMs = 20_000;
const maxBytes = 1024 * 1024;
const maxFiles = 200;

export const search: Tool<Input> = {
  name: "search",
  description:
    "Searches the text of the project's files with ripgrep, hidden ones included; ignored files (.gitignore), binary files and `.git` are left out. " +
    "Returns the matching lines by file with their numbers, or with `mode` only the files, or the number of matches in each. " +
    "Case matters; begin the pattern with `(?i)` when it should not. Output is bounded: narrow it with `path` and `glob`.",
  input,
  effect: "none",
  run: (query, { workspace, signal }) =>
    answer(signal, async () => {
      const { files } = workspace;
      const path = query.path === undefined ? "" : await within(files, query.path);
      const found = await ripgrep(files.root, [...optionsOf(query), "--", path === "" ? "./" : `./${path}`], signal);
      if (found.error !== undefined) return failed(found.error);
      const groups = await allowed(files, groupsOf(found.output, query.mode ?? "lines"));
      if (groups.length === 0 && found.stopped === undefined)
        return ok(`No match in ${path === "" ? "the project" : shown(path)}.`);
      return ok(render(groups.slice(0, maxFiles), query.mode ?? "lines", found.stopped ?? groups.length > maxFiles));
    }),
};

/** The path as it may be named on a command line: ripgrep would follow a link given there. */
const within = async (files: Files, path: string): Promise<string> => {
  try {
    await files.list(path, { limit: 1 });
  } catch (error) {
    if (!(error instanceof FileRefused) || error.kind !== "not-a-file") throw error;
    await files.read(path, 0).catch(unlessTooBig);
  }
  const inside = path.startsWith(`${files.root}/`) ? path.slice(files.root.length + 1) : path;
  return inside
    .split("/")
    .filter((name) => name !== "" && name !== ".")
    .join("/");
};

/** A file that is only too big to be read whole may be searched. */
const unlessTooBig = (error: unknown): undefined => {
  if (error instanceof FileRefused && error.kind === "too-big") return undefined;
  throw error;
};

const optionsOf = ({ pattern, glob, literal = false, mode = "lines", context = 0 }: Input): string[] => [
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
  "--glob=!**/.git/**",
  "--glob=!**/.git",
  ...(glob === undefined ? [] : [`--glob=${glob}`]),
  ...(literal ? ["--fixed-strings"] : []),
  ...(mode === "files" ? ["--files-with-matches"] : []),
  ...(mode === "count" ? ["--count-matches"] : []),
  ...(mode === "lines"
    ? ["--line-number", "--no-heading", "--max-columns=400", "--max-columns-preview", "--no-context-separator"]
    : []),
  ...(mode === "lines" ? [`--context=${context}`] : []),
  `--regexp=${pattern}`,
];

type Found = { output: Buffer; stopped: string | undefined; error: string | undefined };

/** Exit code 1 is "no match"; 2 with output is a file that could not be read. */
const ripgrep = (cwd: string, args: readonly string[], signal: AbortSignal): Promise<Found> =>
  new Promise((resolve, reject) => {
    const child = spawn(rgPath, args, { cwd, env: { LC_ALL: "C.UTF-8" }, stdio: ["ignore", "pipe", "pipe"] });
    const chunks: Buffer[] = [];
    let size = 0;
    let problems = "";
    let stopped: string | undefined;
    const stop = (why: string) => {
      stopped ??= why;
      child.kill("SIGKILL");
    };
    const timer = setTimeout(() => stop(`the search was ended after ${timeoutMs / 1000} s`), timeoutMs);
    const abort = () => stop("aborted");
    signal.addEventListener("abort", abort, { once: true });
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
    };
    child.stdout.on("data", (chunk: Buffer) => {
      if (stopped !== undefined) return;
      chunks.push(chunk);
      size += chunk.length;
      if (size > maxBytes) stop("there are more matches");
    });
    child.stderr.on("data", (chunk: Buffer) => {
      if (problems.length < 4000) problems += chunk.toString("utf8");
    });
    child.once("error", (error) => {
      end();
      reject(error);
    });
    child.once("close", (code) => {
      end();
      const error = code === 2 && size === 0 ? problems.trim().slice(0, 2000) : undefined;
      resolve({ output: Buffer.concat(chunks), stopped, error });
    });
  });

type Group = { path: string; lines: string[] };

/** Records are `path NUL rest newline`, in mode `files` `path NUL`. A record that was cut off is dropped. */
const groupsOf = (output: Buffer, mode: NonNullable<Input["mode"]>): Group[] => {
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
    const last = groups.at(-1);
    if (last?.path === path) last.lines.push(rest);
    else groups.push({ path, lines: [rest] });
    at = end + 1;
  }
  return groups;
};

/** Leaves out what the file tools refuse to read: the rule stands there, once. */
const allowed = async (files: Files, groups: readonly Group[]): Promise<Group[]> => {
  const kept: Group[] = [];
  for (const group of groups) {
    if (kept.length > maxFiles) break;
    try {
      await files.read(group.path, 0).catch(unlessTooBig);
      kept.push(group);
    } catch (error) {
      if (!(error instanceof FileRefused)) throw error;
    }
  }
  return kept;
};

const render = (groups: readonly Group[], mode: NonNullable<Input["mode"]>, more: string | boolean): string => {
  const blocks: string[] = [];
  let size = 0;
  let cut = more;
  for (const { path, lines } of groups) {
    const block =
      mode === "files"
        ? shown(path)
        : mode === "count"
          ? `${lines[0]}\t${shown(path)}`
          : `${shown(path)}\n${lines.map((line) => line.replace(/^(\d+)([:-])/, "  $1$2 ")).join("\n")}`;
    size += block.length + 1;
    if (size > maxOutput && blocks.length > 0) {
      cut = cut === false ? true : cut;
      break;
    }
    blocks.push(block.slice(0, maxOutput));
  }
  if (cut !== false)
    blocks.push(
      `… ${counted(blocks.length, "file")} shown; ${cut === true ? "there are more" : cut}; narrow it with path or glob …`,
    );
  return blocks.join("\n");
};
