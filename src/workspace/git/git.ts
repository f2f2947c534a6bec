import { spawn } from "node:child_process";
import { availableParallelism, constants } from "node:os";
import { dirname } from "node:path";
import { blankedKeys, type GitDirs, locateGit } from "./git-dir.ts";
import { killGroup } from "../../process/command/kill.ts";

/** Hardened git (shared/design/security.md C7): an environment from scratch, no hooks, filters, pagers or network. */

export type GitResult = { exitCode: number; stdout: Buffer; stderr: string };

export type GitOptions = {
  input?: string | Uint8Array;
  /** Exit codes that are answers, not failures; default [0]. Others reject with GitError. */
  ok?: readonly number[];
  /** Added to the environment from scratch, e.g. GIT_INDEX_FILE. */
  env?: Record<string, string>;
  signal?: AbortSignal;
  timeoutMs?: number;
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

export interface Git {
  readonly root: string;
  run(args: readonly string[], options?: GitOptions): Promise<GitResult>;
}

export type CreateGitOptions = {
  /** The worktree's top; default: the root. The root may be a folder inside it. */
  toplevel?: string;
  /** The worktree's git directory, when known, so that nothing inside the worktree can redirect git. */
  gitDir?: string;
  /** The search path for git itself. */
  path?: string;
  author?: Author;
  /** A file of ignore patterns in addition to the project's own. */
  excludes?: string | undefined;
  /** Searches upwards from the root for the repository, whoever owns it. Only for finding out what a directory is. */
  discover?: boolean;
  /** Milliseconds, for calls without a time-out of their own; 30 s. */
  timeoutMs?: number;
  /** Called for every process; for measurements. */
  onSpawn?: (args: readonly string[]) => void;
};

export type Author = { name: string; email: string };

export const defaultAuthor: Author = { name: "Sortie", email: "sortie@localhost" };

const outputBound = 64 * 1024 * 1024;
const defaultTimeoutMs = 30_000;

const environment = {
  HOME: "/nonexistent",
  LC_ALL: "C",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_TERMINAL_PROMPT: "0",
  GIT_OPTIONAL_LOCKS: "0",
  GIT_PAGER: "cat",
  GIT_EDITOR: ":",
  GIT_SEQUENCE_EDITOR: ":",
  GIT_ASKPASS: "/bin/false",
  SSH_ASKPASS: "/bin/false",
  GIT_SSH_COMMAND: "/bin/false",
  GIT_ALLOW_PROTOCOL: "none",
  GIT_NO_REPLACE_OBJECTS: "1",
  GIT_NO_LAZY_FETCH: "1",
  GIT_ATTR_NOSYSTEM: "1",
  GIT_LITERAL_PATHSPECS: "1",
};

const settings = [
  "core.fsmonitor=false",
  "core.hooksPath=/dev/null",
  "core.pager=cat",
  "core.editor=:",
  "diff.external=",
  "core.sshCommand=/bin/false",
  "credential.helper=",
  "commit.gpgSign=false",
  "tag.gpgSign=false",
  "log.showSignature=false",
  "gpg.program=/bin/false",
  "gpg.openpgp.program=/bin/false",
  "gpg.ssh.program=/bin/false",
  "gpg.ssh.defaultKeyCommand=/bin/false",
  "gpg.x509.program=/bin/false",
  "core.alternateRefsCommand=",
  "protocol.allow=never",
  "submodule.recurse=false",
  // Otherwise status, diff and commit start git inside a submodule, whose own configuration names programs.
  "diff.ignoreSubmodules=all",
  "safe.bareRepository=explicit",
  "gc.auto=0",
  "maintenance.auto=false",
  "core.attributesFile=/dev/null",
  "core.excludesFile=/dev/null",
  // Checking out a worktree creates many files, and one worker would make its system calls one by one.
  `checkout.workers=${Math.min(availableParallelism(), 8)}`,
].flatMap((setting) => ["-c", setting]);

/** Subcommands that could run a program of the project's to show a difference. */
const showing = new Set([
  "diff",
  "log",
  "show",
  "diff-tree",
  "diff-index",
  "diff-files",
  "format-patch",
  "whatchanged",
]);

export const createGit = (root: string, options: CreateGitOptions = {}): Git => {
  const { toplevel = root, gitDir, path = "/usr/local/bin:/usr/bin:/bin", author = defaultAuthor } = options;
  const env = {
    ...environment,
    PATH: path,
    ...(options.discover === true ? {} : { GIT_CEILING_DIRECTORIES: dirname(toplevel) }),
    GIT_AUTHOR_NAME: author.name,
    GIT_AUTHOR_EMAIL: author.email,
    GIT_COMMITTER_NAME: author.name,
    GIT_COMMITTER_EMAIL: author.email,
  };
  const flags = [
    "--no-pager",
    ...(options.discover === true ? [] : [`--work-tree=${toplevel}`]),
    ...(gitDir === undefined ? [] : [`--git-dir=${gitDir}`]),
    ...settings,
    ...(options.excludes === undefined ? [] : ["-c", `core.excludesFile=${options.excludes}`]),
    "-c",
    `safe.directory=${options.discover === true ? "*" : toplevel}`,
  ];
  const patience = options.timeoutMs === undefined ? {} : { timeoutMs: options.timeoutMs };
  const raw = (args: readonly string[], run: GitOptions, more: Record<string, string>) => {
    options.onSpawn?.(args);
    const [subcommand = "", ...rest] = args;
    const safe = showing.has(subcommand) ? [subcommand, "--no-ext-diff", "--no-textconv", ...rest] : args;
    return runGit(root, [...flags, ...safe], { ...patience, ...run, env: { ...env, ...more, ...run.env } });
  };
  let dirs: GitDirs | undefined;
  return {
    root,
    async run(args, run = {}) {
      dirs ??= locateGit(toplevel, gitDir);
      const keys = await blankedKeys(dirs, async () => (await raw(listKeys, {}, {})).stdout);
      return raw(args, run, blanking(keys));
    },
  };
};

/** Lists the repository's and the worktree's scopes; the environment switches off the others. */
const listKeys = ["config", "--includes", "--name-only", "-z", "--list"];

/** Uses environment variables, not `-c`, because names may contain `=`. */
const blanking = (keys: readonly string[]): Record<string, string> => {
  if (keys.length === 0) return {};
  const env: Record<string, string> = { GIT_CONFIG_COUNT: String(keys.length) };
  for (const [index, key] of keys.entries()) {
    env[`GIT_CONFIG_KEY_${index}`] = key;
    env[`GIT_CONFIG_VALUE_${index}`] = harmless(key);
  }
  return env;
};

/** A blank merge driver would take one side and report success; one that fails leaves a visible conflict. */
const harmless = (key: string): string => {
  if (key.endsWith(".required")) return "false";
  if (key.endsWith(".driver")) return "/bin/false";
  // Hooks by configuration (git 2.54) are commands of a shell; one that fails would stop what git does.
  return key.startsWith("hook.") ? ":" : "";
};

/** Runs one git process with exactly this environment and these arguments. */
export const runGit = (
  cwd: string,
  args: readonly string[],
  { input, ok = [0], env = {}, signal, timeoutMs = defaultTimeoutMs, onOutput }: GitOptions,
): Promise<GitResult> =>
  new Promise((resolve, reject) => {
    const shown = `git ${args.find((arg, at) => !arg.startsWith("-") && args[at - 1] !== "-c") ?? ""}`;
    if (signal?.aborted === true) {
      reject(new GitError(`${shown} was not started: aborted`, null, ""));
      return;
    }
    const child = spawn("git", args, {
      cwd,
      env,
      detached: true,
      stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
    });
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
      else if (code === null)
        reject(new GitError(`${shown} was ended by ${killed} (${constants.signals[killed ?? "SIGKILL"]})`, null, text));
      else if (ok.includes(code)) resolve({ exitCode: code, stdout: Buffer.concat(stdout), stderr: text });
      else reject(new GitError(`${shown} ended with exit code ${code}: ${text.trim().slice(0, 2000)}`, code, text));
    });
    if (input === undefined) return;
    // git may exit before it has read all input; its exit code decides.
    child.stdin?.on("error", () => undefined);
    child.stdin?.end(input);
  });

export const minGit = "2.39";

/** The version of git on the path, and whether it is recent enough. */
export const gitVersion = async (path = "/usr/local/bin:/usr/bin:/bin"): Promise<{ version: string; ok: boolean }> => {
  const { stdout } = await runGit("/", ["--version"], { env: { ...environment, PATH: path } });
  const version = /(?<![\d.])(\d{1,9})\.(\d{1,9})[\w.]*/.exec(stdout.toString("utf8"));
  const [major, minor] = [Number(version?.[1] ?? 0), Number(version?.[2] ?? 0)];
  const [needMajor = 0, needMinor = 0] = minGit.split(".").map(Number);
  return { version: version?.[0] ?? "", ok: major > needMajor || (major === needMajor && minor >= needMinor) };
};
