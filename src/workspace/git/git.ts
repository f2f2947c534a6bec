import { dirname } from "node:path";
import type { Tracker } from "../../process/process.ts";
import { blankedKeys, type GitDirs, locateGit } from "./git-dir.ts";
import {
  type Author,
  blanking,
  defaultAuthor,
  defaultPath,
  environment,
  environmentOf,
  settings,
  withoutPrograms,
} from "./hardened.ts";
import { againIfDied, type GitOptions, type GitResult, runGit } from "./run.ts";

/**
 * Hardened git on this machine (shared/design/security.md C7): for the user's own files, and for commits and blobs by
 * their ids. For files that an agent shapes, see `tree/tree-git.ts`.
 */

export type { Author } from "./hardened.ts";
export { GitError, type GitOptions, type GitResult } from "./run.ts";

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
  /**
   * Searches upwards from the root for the repository, which may belong to another user only at `toplevel`. Use it only
   * to find out what a directory is.
   */
  discover?: boolean;
  /** Milliseconds, for calls without a time-out of their own; 30 s. */
  timeoutMs?: number;
  /** Puts git's processes on record, and ends them with their Task. */
  tracker?: Tracker;
  /** Called for every process; for measurements. */
  onSpawn?: (args: readonly string[]) => void;
};

/** git on this machine. `blanked`: the repository's settings that name programs, which every call leaves empty. */
export type MachineGit = Git & { blanked: () => Promise<readonly string[]> };

export const createGit = (root: string, options: CreateGitOptions = {}): MachineGit => {
  const { toplevel = root, gitDir, path = defaultPath, author = defaultAuthor, discover = false } = options;
  const env = {
    ...environmentOf(path, author),
    ...(discover ? {} : { GIT_CEILING_DIRECTORIES: dirname(toplevel) }),
  };
  const flags = [
    "--no-pager",
    ...(discover ? [] : [`--work-tree=${toplevel}`]),
    ...(gitDir === undefined ? [] : [`--git-dir=${gitDir}`]),
    ...settings,
    "-c",
    `safe.directory=${toplevel}`,
  ];
  const patience = options.timeoutMs === undefined ? {} : { timeoutMs: options.timeoutMs };
  const raw = (args: readonly string[], run: GitOptions, more: Record<string, string>) => {
    options.onSpawn?.(args);
    return runGit(
      root,
      [...flags, ...withoutPrograms(args)],
      {
        ...patience,
        ...(isSmall(args) ? {} : { dataBytes: mostData }),
        ...run,
        env: { ...env, ...more, ...run.env },
      },
      options.tracker,
    );
  };
  let dirs: GitDirs | undefined;
  const blanked = (): Promise<readonly string[]> => {
    dirs ??= locateGit(toplevel, gitDir);
    return blankedKeys(dirs, async () => {
      const { stdout } = await againIfDied(listKeys, () => raw(listKeys, {}, {}));
      return stdout;
    });
  };
  return {
    root,
    blanked,
    async run(args, run = {}) {
      const blank = blanking(await blanked());
      // Not repeated if the input is a descriptor or the output was passed on: both can be used only once.
      return run.onOutput !== undefined || typeof run.input === "number"
        ? raw(args, run, blank)
        : againIfDied(args, () => raw(args, run, blank));
    },
  };
};

/**
 * Bytes. Whoever can write into a folder can make a repository there in which a few kilobytes of trees stand for
 * thousands of millions of files, or a few kilobytes of differences for gigabytes.
 */
const mostData = 2 * 1024 ** 3;

/** Calls that read neither trees nor contents. All other calls are started by a shell that sets the bound. */
const isSmall = ([subcommand = ""]: readonly string[]): boolean =>
  ["config", "update-ref", "symbolic-ref", "rev-parse", "check-ref-format"].includes(subcommand);

/** Lists the repository's and the worktree's scopes; the environment switches off the others. */
const listKeys = ["config", "--includes", "--name-only", "-z", "--list"];

export const minGit = "2.39";

/** The version of git on the path, and whether it is recent enough. */
export const gitVersion = async (path = defaultPath): Promise<{ version: string; ok: boolean }> => {
  const { stdout } = await runGit("/", ["--version"], { env: { ...environment, PATH: path } });
  const version = /(?<![\d.])(\d{1,9})\.(\d{1,9})[\w.]*/.exec(stdout.toString("utf8"));
  const [major, minor] = [Number(version?.[1] ?? 0), Number(version?.[2] ?? 0)];
  const [needMajor = 0, needMinor = 0] = minGit.split(".").map(Number);
  return { version: version?.[0] ?? "", ok: major > needMajor || (major === needMajor && minor >= needMinor) };
};
