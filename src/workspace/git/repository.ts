import { statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { inflateSync } from "node:zlib";
import { expectBounded, sizeLimits, readBounded, statsAt, textAt } from "../file/bounded-read.ts";
import { FileRefused } from "../file/folder.ts";
import { expectMutualReference, settingsIn, workTreesOf } from "./answer.ts";
import { type GitDirs, locateGit } from "./git-dir.ts";

/**
 * Reads what it can of a repository from its files, without a process (gitrepository-layout(5)). For anything unusual
 * (another ref backend, a work tree named in the config) the answer is `undefined` or `unusual`, and the caller runs
 * git. Throws FileRefused if something else is where a regular file should be.
 */

export type Repository = GitDirs & {
  toplevel: string;
  prefix: string;
  /** The text of its `config`. */
  config: string;
  /** Only git can say where its work tree and its branches are. */
  unusual: boolean;
};

const isFolder = (path: string) => statsAt(path)?.isDirectory() ?? false;

/** git's own test of a git directory. */
const isGitDir = ({ gitDir, commonDir }: GitDirs) =>
  isFolder(join(commonDir, "objects")) &&
  isFolder(join(commonDir, "refs")) &&
  (statsAt(join(gitDir, "HEAD"))?.isFile() ?? false);

/** Throws FileRefused if a Git directory is incomplete or broken: it has these names, but something else is there. */
const expectGitDir = ({ gitDir, commonDir }: GitDirs): void => {
  expectBounded(join(gitDir, "HEAD"), sizeLimits.pointer);
  for (const path of [join(commonDir, "objects"), join(commonDir, "refs")])
    if (statsAt(path)?.isDirectory() === false)
      throw new FileRefused("not-a-file", `Expected a folder at "${path}", got something else`);
};

/**
 * The repository that a directory (a real path) is in, searched upwards as git does, but not across file systems.
 * `none`: there is none. `bare`: the directory is a bare repository, or inside a `.git`. Throws FileRefused if a `.git`
 * cannot be trusted or read.
 */
export const findRepository = (directory: string): Repository | "none" | "bare" => {
  const device = statSync(directory).dev;
  for (let folder = directory; ; folder = dirname(folder)) {
    const found = repositoryAt(folder);
    if (found !== undefined) return { ...found, prefix: directory.slice(folder.length).replace(/^\//, "") };
    if (isGitDir({ gitDir: folder, commonDir: folder })) return "bare";
    if (folder === dirname(folder) || statsAt(dirname(folder))?.dev !== device) return "none";
  }
};

/** Like `findRepository`; undefined also if a `.git` is not trusted, since a Task in place may have left it. */
export const repositoryOf = (directory: string): Repository | undefined => {
  try {
    const found = findRepository(directory);
    return typeof found === "string" ? undefined : found;
  } catch (error) {
    if (error instanceof FileRefused) return undefined;
    throw error;
  }
};

const repositoryAt = (folder: string): Omit<Repository, "prefix"> | undefined => {
  const dotGit = join(folder, ".git");
  const there = statsAt(dotGit);
  if (there === undefined) return undefined;
  if (!there.isDirectory()) expectBounded(dotGit, sizeLimits.pointer);
  const dirs = locateGit(folder, there.isDirectory() ? dotGit : undefined);
  if (!there.isDirectory() && dirs.gitDir === dotGit)
    throw new FileRefused("not-a-file", `Expected "gitdir: <path>" in "${dotGit}", got something else`);
  if (!isGitDir(dirs)) {
    expectGitDir(dirs);
    return undefined;
  }
  const config = textAt(join(dirs.commonDir, "config"), sizeLimits.config) ?? "";
  expectMutualReference(folder, dirs, config);
  const elsewhere = dirs.gitDir === dirs.commonDir && workTreesOf(dirs.gitDir, config).some((path) => path !== folder);
  const unusual = elsewhere || /\brefstorage\s*=|\bbare\s*=?\s*(true|yes|on|1|$)/im.test(config);
  return { ...dirs, toplevel: folder, config, unusual };
};

/** Throws FileRefused if something is in place of a repository's file that git would wait for, or that is too large. */
export const expectFiles = ({ gitDir, commonDir, config }: Repository): void => {
  expectBounded(join(gitDir, "config.worktree"), sizeLimits.config);
  expectBounded(join(gitDir, "index"), sizeLimits.index);
  for (const name of ["packed-refs", "shallow"]) expectBounded(join(commonDir, name), sizeLimits.refs);
  for (const name of ["info/exclude", "info/attributes", "info/grafts", "objects/info/alternates"])
    expectBounded(join(commonDir, name), sizeLimits.config);
  if (/\[\s*include/i.test(config))
    for (const path of settingsIn(config, /^include(if\s.*)?$/i, /^path$/i))
      expectBounded(resolve(commonDir, path), sizeLimits.config);
};

const oid = /^([0-9a-f]{40}|[0-9a-f]{64})$/;
/** One more than an id has, so that the end of a longer word is not taken for an id. */
const longestOid = 65;

/** Where HEAD points: a branch's full name, or a commit when detached. undefined: only git can say. */
export const headOf = (gitDir: string): { ref: string | null; oid: string | null } | undefined => {
  const text = textAt(join(gitDir, "HEAD"), sizeLimits.pointer)?.trim();
  if (text === undefined) return undefined;
  const ref = text.startsWith("ref: ") ? text.slice("ref: ".length) : undefined;
  // A name that leads out of the refs is not a ref; git says so.
  if (ref !== undefined) return /(?:^|\/)\.\.(?:\/|$)|\0/.test(ref) ? undefined : { ref, oid: null };
  return oid.test(text) ? { ref: null, oid: text } : undefined;
};

/** A ref's commit; null: no such ref; undefined: only git can say. */
export const refOf = (commonDir: string, ref: string, depth = 0): string | null | undefined => {
  if (isFolder(join(commonDir, "reftable"))) return undefined;
  const loose = looseRef(join(commonDir, ref))?.trim();
  if (loose?.startsWith("ref:") === true) {
    // git follows the symbolic ref. Its target is checked first, so that git does not block on what is there.
    const next = /^ref:\s*(refs\/.+)$/.exec(loose)?.[1];
    if (next !== undefined && depth < 5 && !next.includes("..")) refOf(commonDir, next, depth + 1);
    return undefined;
  }
  if (loose !== undefined && oid.test(loose)) return loose;
  return packedRef(commonDir, ref);
};

/** Refs found in large packed-refs files, which every request that names the folder would otherwise read again. */
const packedRefs = new Map<string, { stamp: string; id: string | null }>();
const mostKept = 200;
/** Bytes; a smaller file is read at once. */
const largePacked = 1024 * 1024;
/** Most lines that have the name but are not git's, which has each name once. */
const mostOdd = 100;

/** A ref's commit in packed-refs, even if a loose ref hides it; null: it is not there. */
export const packedRef = (commonDir: string, ref: string): string | null => {
  const path = join(commonDir, "packed-refs");
  const stats = statsAt(path);
  if (stats === undefined || stats.size <= largePacked) return packedRefIn(path, ref);
  const stamp = `${stats.ino}.${stats.size}.${stats.mtimeMs}.${stats.ctimeMs}`;
  const key = `${path}\0${ref}`;
  const before = packedRefs.get(key);
  if (before?.stamp === stamp) return before.id;
  const id = packedRefIn(path, ref);
  if (packedRefs.size >= mostKept) packedRefs.clear();
  packedRefs.set(key, { stamp, id });
  return id;
};

const packedRefIn = (path: string, ref: string): string | null => {
  const packed = readBounded(path, sizeLimits.refs);
  if (packed === undefined) return null;
  // Searched as bytes: there may be a million lines.
  const wanted = Buffer.from(` ${ref}\n`);
  let odd = 0;
  for (let at = packed.indexOf(wanted); at !== -1 && odd < mostOdd; at = packed.indexOf(wanted, at + 1), odd += 1) {
    const id = packed.toString("latin1", Math.max(packed.lastIndexOf(0x0a, at) + 1, at - longestOid), at);
    if (oid.test(id)) return id;
  }
  return null;
};

/** The text of a loose ref; undefined also for a folder, which holds refs with longer names. */
const looseRef = (path: string): string | undefined => {
  try {
    return textAt(path, sizeLimits.pointer);
  } catch (error) {
    if (error instanceof FileRefused && isFolder(path)) return undefined;
    throw error;
  }
};

/** Bytes; a longer commit is left to git. */
const longestCommit = 1024 * 1024;

/** Tree and parents of a commit that is a loose object; undefined: it is not loose, for example packed. */
export const looseCommit = (commonDir: string, id: string): { tree: string; parents: string[] } | undefined => {
  try {
    const packed = readBounded(join(commonDir, "objects", id.slice(0, 2), id.slice(2)), longestCommit);
    if (packed === undefined) return undefined;
    const bytes = inflateSync(packed, { maxOutputLength: longestCommit });
    const lines = bytes.toString("latin1", bytes.indexOf(0) + 1).split("\n");
    const tree = lines[0]?.startsWith("tree ") ? lines[0].slice(5) : undefined;
    if (tree === undefined) return undefined;
    const parents: string[] = [];
    for (let at = 1; lines[at]?.startsWith("parent "); at += 1) parents.push(lines[at]?.slice(7) ?? "");
    return { tree, parents };
  } catch {
    return undefined;
  }
};
