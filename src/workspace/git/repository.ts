import { readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { inflateSync } from "node:zlib";
import { type GitDirs, locateGit } from "./git-dir.ts";

/**
 * Reads what it can of a repository from its files, without a process (gitrepository-layout(5)). For anything unusual
 * (another ref backend, a work tree named in the config) the answer is `undefined` or `ask`, and the caller runs git.
 */

export type Repository = GitDirs & { toplevel: string; prefix: string };

const textOf = (path: string): string | undefined => {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
};

const isFolder = (path: string) => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

/** git's own test of a git directory. */
const isGitDir = ({ gitDir, commonDir }: GitDirs) =>
  isFolder(join(commonDir, "objects")) &&
  isFolder(join(commonDir, "refs")) &&
  textOf(join(gitDir, "HEAD")) !== undefined;

/**
 * The repository that a directory (a real path) is in, searched upwards as git does, not across file systems. `none`:
 * there is none. `bare`: the directory is a bare repository, or inside a `.git`. `ask`: only git can say.
 */
export const findRepository = (directory: string): Repository | "none" | "bare" | "ask" => {
  const device = statSync(directory).dev;
  for (let folder = directory; ; folder = dirname(folder)) {
    const dotGit = statSync(join(folder, ".git"), { throwIfNoEntry: false });
    if (dotGit !== undefined) {
      const dirs = locateGit(folder);
      if (isGitDir(dirs)) {
        const config = textOf(join(dirs.commonDir, "config")) ?? "";
        if (/\b(worktree|refstorage)\s*=|\bbare\s*=?\s*(true|yes|on|1|$)/im.test(config)) return "ask";
        return { ...dirs, toplevel: folder, prefix: directory.slice(folder.length).replace(/^\//, "") };
      }
      if (dotGit.isFile()) return "ask";
    }
    if (isGitDir({ gitDir: folder, commonDir: folder })) return "bare";
    if (folder === dirname(folder) || statSync(dirname(folder)).dev !== device) return "none";
  }
};

const oid = /^([0-9a-f]{40}|[0-9a-f]{64})$/;

/** Where HEAD points: a branch's full name, or a commit when detached. undefined: only git can say. */
export const headOf = (gitDir: string): { ref: string | null; oid: string | null } | undefined => {
  const text = textOf(join(gitDir, "HEAD"))?.trim();
  if (text === undefined) return undefined;
  if (text.startsWith("ref: ")) return { ref: text.slice("ref: ".length), oid: null };
  return oid.test(text) ? { ref: null, oid: text } : undefined;
};

/** A ref's commit; null: no such ref; undefined: only git can say. */
export const refOf = (commonDir: string, ref: string): string | null | undefined => {
  if (isFolder(join(commonDir, "reftable"))) return undefined;
  const loose = textOf(join(commonDir, ref))?.trim();
  if (loose?.startsWith("ref: ")) return undefined;
  if (loose !== undefined && oid.test(loose)) return loose;
  const packed = textOf(join(commonDir, "packed-refs")) ?? "";
  for (const line of packed.split("\n")) {
    const at = line.indexOf(" ");
    if (line.slice(at + 1) === ref && oid.test(line.slice(0, at))) return line.slice(0, at);
  }
  return null;
};

/** Tree and parents of a commit that is a loose object; undefined: it is not, for example packed. */
export const looseCommit = (commonDir: string, id: string): { tree: string; parents: string[] } | undefined => {
  try {
    const bytes = inflateSync(readFileSync(join(commonDir, "objects", id.slice(0, 2), id.slice(2))));
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
