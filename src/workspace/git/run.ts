import { spawn } from "node:child_process";
import { constants } from "node:os";
import { killGroup } from "../../process/command/kill.ts";
import type { Tracker } from "../../process/process.ts";
import { defaultIdleMs, defaultTimeoutMs, outputBound } from "./hardened.ts";

/** One git process on this machine. */

export type GitResult = { exitCode: number; stdout: Buffer; stderr: string };

export type GitOptions = {
  /** A number: the descriptor of an open file. */
  input?: string | Uint8Array | number;
  /** Exit codes that are answers, not failures; default [0]. Others reject with GitError. */
  ok?: readonly number[];
  /** Added to the environment from scratch, e.g. GIT_INDEX_FILE. */
  env?: Record<string, string>;
  signal?: AbortSignal;
  timeoutMs?: number;
  /** Milliseconds without progress after which it is ended; 30 s. */
  idleMs?: number;
  /** Lets it go on where its Task is cancelled: what it writes is the user's, and a lock of it would stay. */
  undisturbed?: boolean;
  /** Whether it changes the user's own Git directory, which is read-only for it otherwise. Only where a Task works in place. */
  writes?: boolean;
  /** Bytes of data that it may allocate, where the system can bound that; what it maps of files does not count. */
  dataBytes?: number;
  /** Receives the output in parts, with no limit on its length; `stdout` is then empty. */
  onOutput?: (part: Buffer) => unknown;
};

export class GitError extends Error {
  readonly exitCode: number | null;
  readonly stderr: string;
  constructor(message: string, exitCode: number | null, stderr: string) {
    super(message);
    this.name = "GitError";
    this.exitCode = exitCode;
    this.stderr = stderr;
  }
}

export const idleError = (shown: string, idleMs: number, stderr: string): GitError =>
  new GitError(`${shown} made no progress for ${idleMs} ms: something in the files keeps it waiting`, null, stderr);

/** Somebody else ended it: a person, or the kernel for want of memory. */
export class GitDied extends GitError {}

/**
 * Calls that may be made again when git died in the middle of them: they only read, or write what has its own name, or
 * compare before they set.
 */
const repeatable = new Set([
  "cat-file",
  "check-attr",
  "check-ignore",
  "commit-tree",
  "diff",
  "diff-index",
  "diff-tree",
  "hash-object",
  "log",
  "ls-files",
  "ls-tree",
  "merge-base",
  "merge-tree",
  "pack-objects",
  "rev-parse",
  "show",
  "status",
  "update-ref",
  "write-tree",
]);

/** Calls again, once, where git died and that is safe. */
export const againIfDied = async <T>(args: readonly string[], call: () => Promise<T>): Promise<T> => {
  try {
    return await call();
  } catch (error) {
    const subcommand = args.find((arg, at) => !arg.startsWith("-") && args[at - 1] !== "-c") ?? "";
    if (!(error instanceof GitDied) || !repeatable.has(subcommand)) throw error;
    return await call();
  }
};

/** How an error names a call: the subcommand, without flags. */
export const shownOf = (args: readonly string[]): string =>
  `git ${args.find((arg, at) => !arg.startsWith("-") && args[at - 1] !== "-c") ?? ""}`;

/** The failure of a call that ended with an exit code that is no answer. */
export const exitError = (shown: string, code: number, stderr: string): GitError =>
  new GitError(`${shown} ended with exit code ${code}: ${stderr.trim().slice(0, 2000)}`, code, stderr);

/** What to start: git itself, or a shell that becomes git within the limit. */
const commandOf = (args: readonly string[], dataBytes: number | undefined): [string, readonly string[]] => {
  if (dataBytes === undefined) return ["git", args];
  const script = `ulimit -d ${Math.floor(dataBytes / 1024)} 2>/dev/null; exec git "$@"`;
  return ["/bin/sh", ["-c", script, "git", ...args]];
};

/** Runs one git process with exactly this environment and these arguments. */
export const runGit = (
  cwd: string,
  args: readonly string[],
  options: GitOptions,
  tracker?: Tracker,
): Promise<GitResult> =>
  new Promise((resolve, reject) => {
    const { input, ok = [0], env = {}, signal, timeoutMs = defaultTimeoutMs, onOutput } = options;
    const shown = shownOf(args);
    if (signal?.aborted === true) {
      reject(new GitError(`${shown} was not started: aborted`, null, ""));
      return;
    }
    const [file, argv] = commandOf(args, options.dataBytes);
    const child = spawn(file, argv, {
      cwd,
      env: { ...env, ...tracker?.env },
      detached: true,
      stdio: [input === undefined ? "ignore" : typeof input === "number" ? input : "pipe", "pipe", "pipe"],
    });
    const { idleMs = defaultIdleMs, undisturbed = false } = options;
    const tracked = child.pid === undefined ? undefined : tracker?.begin(child.pid, { idleMs, undisturbed });
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    let bytes = 0;
    let stopped: string | undefined;
    const stop = (why: string) => {
      stopped ??= why;
      // Kills the whole group: helpers that git started would keep the pipes open.
      if (child.pid !== undefined) killGroup(child.pid);
    };
    const collect = (into: Buffer[]) => (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > outputBound) stop(`wrote more than ${outputBound} bytes`);
      else into.push(chunk);
    };
    child.stdout?.on("data", onOutput ?? collect(stdout));
    child.stderr?.on("data", collect(stderr));
    const timer = setTimeout(() => stop(`took longer than ${timeoutMs} ms`), timeoutMs);
    const abort = () => stop("was aborted");
    signal?.addEventListener("abort", abort, { once: true });
    const end = () => {
      tracked?.[Symbol.dispose]();
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    };
    child.once("error", (error) => {
      end();
      reject(new GitError(`${shown} was not started: ${error.message}`, null, ""));
    });
    child.once("close", (code, killed) => {
      end();
      const text = Buffer.concat(stderr).toString("utf8");
      if (stopped !== undefined) reject(new GitError(`${shown} ${stopped}`, null, text));
      else if (tracked?.killed() === "idle") reject(idleError(shown, idleMs, text));
      else if (tracked?.killed() === "interrupted") reject(new GitError(`${shown} was aborted`, null, text));
      else if (code === null)
        reject(new GitDied(`${shown} was ended by ${killed} (${constants.signals[killed ?? "SIGKILL"]})`, null, text));
      else if (ok.includes(code)) resolve({ exitCode: code, stdout: Buffer.concat(stdout), stderr: text });
      else reject(exitError(shown, code, text));
    });
    if (input === undefined || typeof input === "number") return;
    // git may exit before it has read all input; its exit code decides.
    child.stdin?.on("error", () => undefined);
    child.stdin?.end(input);
  });
