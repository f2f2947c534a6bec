import { join, resolve } from "node:path";
import { sizeLimits, statsAt, textAt } from "../file/bounded-read.ts";
import { FileRefused } from "../file/folder.ts";

/** Finds the git directories of a worktree and its repository by reading files, without a process. */

export type GitDirs = { gitDir: string; commonDir: string };

/**
 * gitrepository-layout(5): `.git` may be a file "gitdir: …", and a linked worktree names its repository in `commondir`.
 * Believes these files: `repository.ts` judges whether the repository may be used.
 */
export const locateGit = (toplevel: string, known?: string): GitDirs => {
  const dotGit = join(toplevel, ".git");
  const isFolder = known !== undefined || statsAt(dotGit)?.isDirectory() === true;
  const pointer = isFolder ? undefined : textAt(dotGit, sizeLimits.pointer);
  const named = pointer?.startsWith("gitdir: ") ? pointer.slice("gitdir: ".length).replace(/\n$/, "") : ".git";
  const gitDir = known ?? resolve(toplevel, named);
  const common = textAt(join(gitDir, "commondir"), sizeLimits.pointer)?.replace(/\n$/, "");
  return { gitDir, commonDir: common === undefined ? gitDir : resolve(gitDir, common) };
};

/**
 * Settings that name programs which git would run on files. They are blanked one by one, since git has no wildcard for
 * it.
 */
const harmful =
  /^(filter\..*\.(clean|smudge|process|required)|diff\..*\.(command|textconv)|merge\..*\.driver|hook\..*\.command)$/s;

/**
 * Sections that can hold such settings, or include other files. Deliberately matches too much rather than too little.
 */
const suspicious = /\[\s*(filter|diff|merge|hook|include)/i;

/** Each setting takes two environment variables of every git process, and a program can be given only so many. */
const mostKeys = 1000;

type Known = { stamp: string; keys: readonly string[] };
const known = new Map<string, Known>();

const stampOf = (path: string): string => {
  const stats = statsAt(path);
  return stats === undefined ? "-" : `${stats.mtimeMs}.${stats.size}.${stats.ino}`;
};

const configsOf = (dirs: GitDirs) => [join(dirs.commonDir, "config"), join(dirs.gitDir, "config.worktree")];

/** Changes whenever the repository's config may have changed. */
export const configStamp = (dirs: GitDirs): string => configsOf(dirs).map(stampOf).join(" ");

/**
 * The settings of this repository to blank. Starts a process only if the config has a section that may hold such a
 * setting, and again only after the config changed; with includes every time, because included files are not watched.
 */
export const blankedKeys = async (dirs: GitDirs, list: () => Promise<Buffer>): Promise<readonly string[]> => {
  const stamp = configStamp(dirs);
  const before = known.get(dirs.gitDir);
  if (before?.stamp === stamp) return before.keys;

  const text = configsOf(dirs)
    .map((path) => textAt(path, sizeLimits.config) ?? "")
    .join("\n");
  const named = suspicious.test(text)
    ? (await list())
        .toString("utf8")
        .split("\0")
        .filter((key) => harmful.test(key))
    : [];
  const keys = [...new Set(named)];
  if (keys.length > mostKeys)
    throw new FileRefused(
      "too-big",
      `Expected at most ${mostKeys} settings that name programs in "${join(dirs.commonDir, "config")}", got ${keys.length}`,
    );
  if (known.size > 1000) known.clear();
  if (!/\[\s*include/i.test(text)) known.set(dirs.gitDir, { stamp, keys });
  return keys;
};
