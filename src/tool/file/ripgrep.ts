import { spawn } from "node:child_process";
import { rgPath } from "@vscode/ripgrep";
import { decodePath } from "../../workspace/file/files.ts";

/** Runs ripgrep once, bounded in time and output. */

const timeoutMs = 20_000;
const maxBytes = 1024 * 1024;

/** `stopped`: why there may be more matches than `output` holds; undefined: it is complete. */
export type RipgrepMatches = { output: Buffer; stopped: string | undefined; error: string | undefined };

/**
 * Exit code 1 is "no match"; 2 with output means that some file could not be read. `text` is searched instead of files.
 */
export const ripgrep = (
  cwd: string,
  args: readonly string[],
  signal: AbortSignal,
  text?: string,
): Promise<RipgrepMatches> =>
  new Promise((resolve, reject) => {
    const child = spawn(rgPath, args, {
      cwd,
      env: { LC_ALL: "C.UTF-8" },
      stdio: [text === undefined ? "ignore" : "pipe", "pipe", "pipe"],
    });
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
    child.stdout?.on("data", (chunk: Buffer) => {
      if (stopped !== undefined) return;
      chunks.push(chunk);
      size += chunk.length;
      if (size > maxBytes) stop("there are more matches than are looked at");
    });
    child.stderr?.on("data", (chunk: Buffer) => {
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
    // ripgrep may exit before it has read all input.
    child.stdin?.on("error", () => undefined);
    child.stdin?.end(text);
  });

export type Line = { number: string; match: boolean; text: string };
/** `count` is set in mode count, `lines` in mode lines. */
export type Group = { path: string; count: string; lines: Line[] };

/** Parses records `path NUL rest newline`, or without a rest `path NUL`. A truncated last record is dropped. */
export const groupsOf = (output: Buffer, mode: "lines" | "files" | "count"): Group[] => {
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
