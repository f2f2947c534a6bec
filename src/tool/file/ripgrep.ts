import { type ChildProcess, spawn } from "node:child_process";
import { rgPath } from "@vscode/ripgrep";
import type { Workspace } from "../../workspace/workspace.ts";

/** Runs ripgrep once, bounded in time and output. */

const timeoutMs = 20_000;
const maxBytes = 1024 * 1024;

/** `stopped`: why there may be more matches than `output` holds; undefined: it is complete. */
export type RipgrepMatches = { output: Buffer; stopped: string | undefined; error: string | undefined };

const tooMany = "there are more matches than are looked at";
const tooLong = `the search was stopped after ${timeoutMs / 1000} s`;

/** Collects output up to `maxBytes`, then calls `full`. */
const createCollector = (full: () => void) => {
  const chunks: Buffer[] = [];
  let size = 0;
  return {
    add(chunk: Buffer) {
      if (size > maxBytes) return;
      chunks.push(chunk);
      size += chunk.length;
      if (size > maxBytes) full();
    },
    isFull: () => size > maxBytes,
    output: () => Buffer.concat(chunks),
  };
};

/** Exit code 1 means no match; 2 with output means that some file could not be read. */
const errorOf = (code: number | null, output: Buffer, problems: string): string | undefined =>
  code === 2 && output.length === 0 ? problems.trim().slice(0, 2000) : undefined;

/**
 * Searches the workspace's files, in its sandbox: nothing that an agent does to the files can lead ripgrep out of it.
 */
export const searchFiles = async (
  workspace: Pick<Workspace, "root" | "runProgram">,
  args: readonly string[],
  signal: AbortSignal,
): Promise<RipgrepMatches> => {
  const enough = new AbortController();
  const collected = createCollector(() => enough.abort());
  const ran = await workspace.runProgram({ name: "rg", path: rgPath }, args, {
    cwd: workspace.root,
    env: { LC_ALL: "C.UTF-8" },
    timeoutMs,
    keepBytes: 4000,
    signal: AbortSignal.any([signal, enough.signal]),
    onStdout: (chunk) => collected.add(chunk),
  });
  const output = collected.output();
  if (ran.ended === "not-started") return { output, stopped: undefined, error: ran.output };
  const stopped = collected.isFull()
    ? tooMany
    : ran.ended === "timeout"
      ? tooLong
      : ran.ended === "aborted"
        ? "aborted"
        : undefined;
  return { output, stopped, error: errorOf(ran.exitCode, output, ran.output) };
};

/** Searches a text that is in no file. */
export const searchText = (text: Uint8Array, args: readonly string[], signal: AbortSignal): Promise<RipgrepMatches> =>
  new Promise((resolve, reject) => {
    // When file descriptors run out the child has no streams, and the error arrives as an event.
    const child: ChildProcess = spawn(rgPath, [...args, "-"], {
      cwd: "/",
      env: { LC_ALL: "C.UTF-8" },
      stdio: ["pipe", "pipe", "pipe"],
    });
    let problems = "";
    let stopped: string | undefined;
    const stop = (why: string) => {
      stopped ??= why;
      child.kill("SIGKILL");
    };
    const collected = createCollector(() => stop(tooMany));
    const timer = setTimeout(() => stop(tooLong), timeoutMs);
    const abort = () => stop("aborted");
    signal.addEventListener("abort", abort, { once: true });
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
    };
    child.stdout?.on("data", (chunk: Buffer) => collected.add(chunk));
    child.stderr?.on("data", (chunk: Buffer) => {
      if (problems.length < 4000) problems += chunk.toString("utf8");
    });
    child.once("error", (error) => {
      end();
      reject(error);
    });
    child.once("close", (code) => {
      end();
      const output = collected.output();
      resolve({ output, stopped, error: errorOf(code, output, problems) });
    });
    // ripgrep may exit before it has read all input.
    child.stdin?.on("error", () => undefined);
    child.stdin?.end(text);
  });
