import { randomBytes } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Command, CommandResult } from "../../process/process.ts";
import { shellQuote } from "../../shell-quote.ts";
import { removeTree } from "../file/remove-tree.ts";
import type { Git } from "../git/git.ts";
import {
  type Author,
  blanking,
  defaultIdleMs,
  defaultTimeoutMs,
  environmentOf,
  outputBound,
  settings,
  withoutPrograms,
} from "../git/hardened.ts";
import {
  againIfDied,
  exitError,
  GitDied,
  GitError,
  idleError,
  type GitOptions,
  type GitResult,
  shownOf,
} from "../git/run.ts";

/**
 * Git over files that an agent shapes. It runs as a command of the Task, in the same sandbox and with the same rights,
 * so that nothing in the tree makes it do what the agent could not do itself. The service trusts nothing in its output
 * that it cannot check (`object/take-over.ts`).
 */
export interface TreeGit extends Git {
  /** The Git directory as git sees it. */
  readonly gitDir: string;
  /** The objects of the repository, as git sees them. */
  readonly objects: string;
  /** A git call as a line of a shell script. */
  line(args: readonly string[]): string;
  /** Runs a script of bash as one job. An error names it `shown`. */
  script(shown: string, text: string, options?: Omit<GitOptions, "input">): Promise<GitResult>;
  /** A name for a file that git may write; the file is deleted when this is disposed. */
  temporary(): TemporaryFile;
}

/** `path`: as git sees it; `own`: on this machine, where an agent may have put something else in its place. */
export type TemporaryFile = { path: string; own: string } & Disposable;

export type TreeGitOptions = {
  /** The folder where git runs, on this machine. */
  root: string;
  /** The top of the tree, and the Git directory, as seen from inside. */
  toplevel: string;
  gitDir: string;
  objects: string;
  /** A folder that git may write, on this machine and as seen from inside. */
  scratch: { own: string; seen: string };
  /** A file of ignore patterns in addition to the project's own, as seen from inside. */
  excludes: string | undefined;
  /** Removes locks that a killed git left; undefined where other git processes work in the Git directory, too. */
  removeLocks?: () => Promise<void>;
  /** The settings to blank, where the configuration is the user's own. */
  keys?: () => Promise<readonly string[]>;
  /** Whether `status` may write what it learned into the index. */
  refresh: boolean;
  run: (command: Command, writes: boolean) => Promise<CommandResult>;
  /** The search path for git itself. */
  path: string;
  author: Author;
  /** Called for every process; for measurements. */
  onSpawn?: (args: readonly string[]) => void;
};

/** Bytes; a longer script does not fit into an argument of bash, and is passed as a file. */
const longestScript = 64 * 1024;

/** Bytes of a script's output that an error may need; all of it goes to `onStdout` and `onStderr`. */
const keepBytes = 4096;

/** Bytes of standard error that are kept. */
const longestError = 64 * 1024;

export const createTreeGit = (options: TreeGitOptions): TreeGit => {
  const { root, toplevel, gitDir, scratch, path, author } = options;
  const flags = [
    "git",
    "--no-pager",
    `--work-tree=${toplevel}`,
    `--git-dir=${gitDir}`,
    ...settings,
    ...(options.excludes === undefined ? [] : ["-c", `core.excludesFile=${options.excludes}`]),
    "-c",
    `safe.directory=${toplevel}`,
  ].map(shellQuote);
  const base = {
    ...environmentOf(path, author),
    GIT_CEILING_DIRECTORIES: dirname(toplevel),
    ...(options.refresh ? { GIT_COMMON_DIR: gitDir, GIT_OPTIONAL_LOCKS: "1" } : {}),
  };
  const line = (args: readonly string[]): string => [...flags, ...withoutPrograms(args).map(shellQuote)].join(" ");

  const temporary = (): TemporaryFile => {
    const name = `sortie-${randomBytes(9).toString("hex")}`;
    const own = join(scratch.own, name);
    const remove = () => {
      for (const path of [own, `${own}.lock`]) rmSync(path, { force: true, recursive: true });
      // May hold very many objects; no other file ever has this name.
      void removeTree(`${own}.objects`).catch(() => undefined);
    };
    return { path: join(scratch.seen, name), own, [Symbol.dispose]: remove };
  };

  /** Writes a new file; never opens one that an agent put there, even though an agent cannot know the name. */
  const written = (bytes: string | Uint8Array): TemporaryFile => {
    const file = temporary();
    writeFileSync(file.own, bytes, { flag: "wx", mode: 0o600 });
    return file;
  };

  const job = async (shown: string, text: string, options_: Omit<GitOptions, "input">): Promise<GitResult> => {
    const { ok = [0], env = {}, signal, timeoutMs = defaultTimeoutMs, onOutput, writes = false } = options_;
    const { idleMs = defaultIdleMs } = options_;
    const stopped = new AbortController();
    const parts: Buffer[] = [];
    let bytes = 0;
    let tooMuch = false;
    let stderr = "";
    using file = text.length > longestScript ? written(text) : undefined;
    const keys = await (options.keys?.() ?? []);
    const result = await options.run(
      {
        run: file === undefined ? text : `exec bash --norc ${shellQuote(file.path)}`,
        cwd: root,
        env: { ...base, ...blanking(keys), ...env },
        timeoutMs,
        idleMs,
        keepBytes,
        signal: signal === undefined ? stopped.signal : AbortSignal.any([signal, stopped.signal]),
        onStdout(chunk) {
          if (onOutput !== undefined) onOutput(chunk);
          else if ((bytes += chunk.length) <= outputBound) parts.push(chunk);
          else {
            tooMuch = true;
            stopped.abort();
          }
        },
        onStderr(chunk) {
          if (stderr.length < longestError) stderr += chunk.toString("utf8");
        },
      },
      writes,
    );
    if (tooMuch) throw new GitError(`${shown} wrote more than ${outputBound} bytes`, null, stderr);
    if (result.ended === "not-started") throw new GitError(`${shown} was not started: ${result.output}`, null, "");
    if (result.idle === true) throw idleError(shown, idleMs, stderr);
    if (result.ended === "timeout") throw new GitError(`${shown} took longer than ${timeoutMs} ms`, null, stderr);
    if (result.ended === "aborted") throw new GitError(`${shown} was aborted`, null, stderr);
    if (result.exitCode === null) throw new GitDied(`${shown} was killed by a signal`, null, stderr);
    if (!ok.includes(result.exitCode)) throw exitError(shown, result.exitCode, stderr);
    return { exitCode: result.exitCode, stdout: Buffer.concat(parts), stderr };
  };

  const retrying = async (shown: string, text: string, more: Omit<GitOptions, "input">): Promise<GitResult> => {
    try {
      return await job(shown, text, more);
    } catch (error) {
      const locked = error instanceof GitError && /\.lock': File exists/.test(error.stderr);
      if (!locked || options.removeLocks === undefined) throw error;
      await options.removeLocks();
      return await job(shown, text, more);
    }
  };

  return {
    root,
    gitDir,
    objects: options.objects,
    line,
    script: (shown, text, more = {}) => retrying(shown, text, more),
    temporary,
    async run(args, { input, ...more } = {}) {
      options.onSpawn?.(args);
      if (typeof input === "number")
        throw new Error("Expected the input as bytes: no descriptor leads into a sandbox.");
      using file = input === undefined ? undefined : written(input);
      const from = file === undefined ? "" : ` <${shellQuote(file.path)}`;
      const call = () => retrying(shownOf(args), `exec ${line(args)}${from}`, more);
      return await (more.onOutput === undefined ? againIfDied(args, call) : call());
    },
  };
};

/** The same git, ended once it has made no progress for `idleMs`. */
export const withPatience = (git: TreeGit, idleMs: number): TreeGit => ({
  ...git,
  run: (args, options) => git.run(args, { ...options, idleMs }),
  script: (shown, text, options) => git.script(shown, text, { ...options, idleMs }),
});
