import { constants } from "node:os";
import { startHere } from "../../process/command/own.ts";
import type { OwnProgram, Tracker } from "../../process/process.ts";
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
  /** Milliseconds without progress after which git is ended; 30 s. */
  idleMs?: number;
  /** Lets git go on when its Task is cancelled: it writes files of the user's, and would leave a lock there. */
  undisturbed?: boolean;
  /**
   * Whether git changes the user's own Git directory, which is read-only for it otherwise. Only where a Task works in
   * place.
   */
  writes?: boolean;
  /** Bytes of data that git may allocate, where the system can bound that; files that it maps do not count. */
  dataBytes?: number;
  /**
   * Receives the output in parts, with no limit on its length; `stdout` is then empty. If it throws, git is ended and
   * the call rejects with that error.
   */
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
  new GitError(`${shown} made no progress for ${idleMs} ms: one of the files blocks it`, null, stderr);

/** Somebody else ended git: a person, or the kernel for want of memory. */
export class GitDied extends GitError {}

/**
 * Calls that may be repeated if git died during them: they only read, or write under a name made from the content, or
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
  "for-each-ref",
  "grep",
  "hash-object",
  "log",
  "ls-files",
  "ls-tree",
  "merge-base",
  "merge-file",
  "merge-tree",
  "pack-objects",
  "rev-list",
  "rev-parse",
  "show",
  "status",
  "update-ref",
  "write-tree",
]);

/** Calls once more if git died and that is safe. */
export const againIfDied = async <T>(args: readonly string[], call: () => Promise<T>): Promise<T> => {
  try {
    return await call();
  } catch (error) {
    const subcommand = args.find((arg, at) => !arg.startsWith("-") && args[at - 1] !== "-c") ?? "";
    const reads = repeatable.has(subcommand) || (subcommand === "config" && args.includes("--list"));
    if (!(error instanceof GitDied) || !reads) throw error;
    return await call();
  }
};

/** How an error names a call: the subcommand, without flags. */
export const shownOf = (args: readonly string[]): string =>
  `git ${args.find((arg, at) => !arg.startsWith("-") && args[at - 1] !== "-c") ?? ""}`;

/** The error of a call whose exit code is not an answer. */
export const exitError = (shown: string, code: number, stderr: string): GitError =>
  new GitError(`${shown} ended with exit code ${code}: ${stderr.trim().slice(0, 2000)}`, code, stderr);

/** The program to start: git itself, or a shell that becomes git within the limit. */
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
    const { idleMs = defaultIdleMs, undisturbed = false } = options;
    const [file, argv] = commandOf(args, options.dataBytes);
    const program: OwnProgram = { file, args: argv, cwd, env, input };
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    let bytes = 0;
    let stopped: string | undefined;
    let fault: { error: unknown } | undefined;
    const stop = (why: string) => {
      stopped ??= why;
      git.kill();
    };
    const timer = setTimeout(() => stop(`took longer than ${timeoutMs} ms`), timeoutMs);
    const abort = () => stop("was aborted");
    signal?.addEventListener("abort", abort, { once: true });
    const pass = (part: Buffer) => {
      try {
        if (fault === undefined) onOutput?.(part);
      } catch (error) {
        fault = { error };
        stop("was ended");
      }
    };
    const over = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    };
    const listener = {
      output(from: "stdout" | "stderr", chunk: Buffer) {
        if (from === "stdout" && onOutput !== undefined) return pass(chunk);
        bytes += chunk.length;
        if (bytes > outputBound) stop(`wrote more than ${outputBound} bytes`);
        else (from === "stdout" ? stdout : stderr).push(chunk);
      },
      failed(message: string) {
        over();
        reject(new GitError(`${shown} was not started: ${message}`, null, ""));
      },
      ended(code: number | null, signal: NodeJS.Signals | null, killed?: "idle" | "interrupted") {
        over();
        const text = Buffer.concat(stderr).toString("utf8");
        if (fault !== undefined) reject(fault.error);
        else if (stopped !== undefined) reject(new GitError(`${shown} ${stopped}`, null, text));
        else if (killed === "idle") reject(idleError(shown, idleMs, text));
        else if (killed === "interrupted") reject(new GitError(`${shown} was aborted`, null, text));
        else if (code === null) {
          const number = signal === null ? "" : ` (${constants.signals[signal]})`;
          reject(new GitDied(`${shown} was killed by ${signal ?? "an unknown signal"}${number}`, null, text));
        } else if (ok.includes(code)) resolve({ exitCode: code, stdout: Buffer.concat(stdout), stderr: text });
        else reject(exitError(shown, code, text));
      },
    };
    const git =
      tracker === undefined
        ? startHere(program, { ...listener, started: () => {} })
        : tracker.start(program, { idleMs, undisturbed }, listener);
  });
