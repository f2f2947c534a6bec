import { lstatSync, realpathSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { expectBounded, sizeLimits, statsAt, textAt } from "../file/bounded-read.ts";
import { FileRefused } from "../file/folder.ts";
import type { GitDirs } from "./git-dir.ts";

/**
 * Checks that a Git directory which a folder names is the folder's own. Whoever can write into a folder can leave a
 * `.git` in it that leads to somebody else's repository; only who can write into that repository can make it name the
 * folder in return.
 */

const realOf = (path: string): string | undefined => {
  try {
    return realpathSync.native(path);
  } catch {
    return undefined;
  }
};

const isLink = (path: string): boolean => {
  try {
    return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
  } catch {
    return false;
  }
};

/** Whether a path of a folder leads to something within that folder, whatever links are on the way. */
export const isInsideFolder = (folder: string, name: string): boolean => {
  const [top, real] = [realOf(folder), realOf(join(folder, name))];
  return top !== undefined && real?.startsWith(`${top}/`) === true;
};

/** The value of a config line, behind its "=" (git-config(1)): quotes, escapes, comments. */
const valueOf = (text: string): string => {
  let value = "";
  let quoted = false;
  let kept = 0;
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at] ?? "";
    if (character === '"') {
      quoted = !quoted;
      kept = value.length;
    } else if (character === "\\") {
      at += 1;
      value += text[at] ?? "";
      kept = value.length;
    } else if (!quoted && (character === "#" || character === ";")) break;
    else {
      value += character;
      if (quoted || !/\s/.test(character)) kept = value.length;
    }
  }
  return value.slice(0, kept);
};

/** A section of a config as written, with the lines that set something in it. */
type Section = { header: string; pairs: { key: string; text: string }[] };

/** The config that was parsed last: one request asks for several settings of the same config. */
let lastRead: { config: string; sections: Section[] } = { config: "", sections: [] };

const sectionsIn = (config: string): Section[] => {
  if (config === lastRead.config) return lastRead.sections;
  const sections: Section[] = [];
  for (const line of config.split("\n")) {
    const header = /^\s*\[([^\]"]*(?:"(?:[^"\\]|\\.)*"\s*)?)\](.*)$/.exec(line);
    if (header !== null) sections.push({ header: header[1]?.trim() ?? "", pairs: [] });
    const pair = /^\s*([\w-]+)\s*=\s*(.*)$/.exec(header?.[2] ?? line);
    if (pair !== null) sections.at(-1)?.pairs.push({ key: pair[1] ?? "", text: pair[2] ?? "" });
  }
  lastRead = { config, sections };
  return sections;
};

/** Most different values of one key in a config, of which git uses the last or all. */
const mostValues = 1000;

/**
 * The different values of a key in the sections whose header is `wanted`, in their order; included files are not read.
 * Throws FileRefused for more values than anybody has, since each may be a file to check.
 */
export const settingsIn = (config: string, wanted: Pick<RegExp, "test">, key: RegExp): string[] => {
  const values = new Set<string>();
  for (const { header, pairs } of sectionsIn(config))
    if (pairs.length > 0 && wanted.test(header))
      for (const { key: name, text } of pairs) {
        if (!key.test(name)) continue;
        const value = valueOf(text);
        // Moves a repeated value to the end, since for some keys git uses only the last.
        values.delete(value);
        values.add(value);
      }
  if (values.size > mostValues)
    throw new FileRefused(
      "too-big",
      `Expected at most ${mostValues} values of one key in the config, got ${values.size}`,
    );
  return [...values];
};

/** The folders that the config names as the work tree. */
export const workTreesOf = (gitDir: string, config: string): string[] => {
  const own = /worktreeconfig/i.test(config) ? (textAt(join(gitDir, "config.worktree"), sizeLimits.config) ?? "") : "";
  return /worktree\s*=/i.test(config) || own !== ""
    ? settingsIn(`${config}\n${own}`, /^core$/i, /^worktree$/i).map((path) => resolve(gitDir, path))
    : [];
};

/**
 * Whether the Git directory is that of a linked worktree: it belongs to the repository, and names the folder's `.git`.
 */
const namesWorktree = (gitDir: string, commonDir: string, folder: string): boolean => {
  if (dirname(gitDir) !== join(commonDir, "worktrees")) return false;
  const back = textAt(join(gitDir, "gitdir"), sizeLimits.pointer)?.replace(/\n$/, "");
  if (back === undefined || back === "") return false;
  const dotGit = resolve(gitDir, back);
  return basename(dotGit) === ".git" && realOf(dirname(dotGit)) === folder;
};

const ownersOf = (paths: readonly string[]): Set<number | undefined> =>
  new Set(paths.map((path) => (isLink(path) ? lstatSync(path).uid : statsAt(path)?.uid)));

/**
 * Throws FileRefused if the folder's `.git` is a file or a link, or its repository is elsewhere, and the repository
 * does not name the folder in return or belongs to somebody else. The folder is a real path.
 */
export const expectMutualReference = (folder: string, dirs: GitDirs, config: string): void => {
  const dotGit = join(folder, ".git");
  const own = dirs.gitDir === dotGit && dirs.commonDir === dotGit && !isLink(dotGit);
  const gitDir = own ? dotGit : (realOf(dirs.gitDir) ?? dirs.gitDir);
  const commonDir = own || dirs.commonDir === dirs.gitDir ? gitDir : (realOf(dirs.commonDir) ?? dirs.commonDir);
  const linked = commonDir !== gitDir;
  if (gitDir !== dotGit || linked) {
    const answered = linked
      ? namesWorktree(gitDir, commonDir, folder)
      : workTreesOf(gitDir, config).some((path) => realOf(path) === folder);
    if (!answered)
      throw new FileRefused(
        "outside",
        `Expected "${dotGit}" to name a Git directory that names this folder in return, got "${gitDir}", which does not. ` +
          (linked
            ? `If it is yours: git -C "${folder}" worktree repair`
            : `If it is yours: git config --file "${gitDir}/config" core.worktree "${folder}"`),
      );
    const owners = ownersOf([folder, dotGit, gitDir, commonDir]);
    if (owners.size > 1)
      throw new FileRefused(
        "outside",
        `Expected "${dotGit}" and the Git directory that it names to belong to the folder's owner, ` +
          `got the users ${[...owners].join(", ")} for "${folder}" and "${gitDir}"`,
      );
  }
  expectOwn(commonDir, ownNames);
  expectOwn(gitDir, ["HEAD", "index", ...logNames]);
  const branch = /^ref:\s*(refs\/heads\/.+)$/m
    .exec(textAt(join(gitDir, "HEAD"), sizeLimits.pointer) ?? "")?.[1]
    ?.trim();
  if (branch !== undefined && branch.length > longestPath)
    throw new FileRefused(
      "too-big",
      `Expected a branch in "${join(gitDir, "HEAD")}", got a name of ${branch.length} characters`,
    );
  if (branch !== undefined) expectOwn(commonDir, [...foldersOf(branch), ...foldersOf(`logs/${branch}`)]);
};

/** No branch has a longer name, as it is a path. */
const longestPath = 4096;

/** Branches, the service's own refs, and what git keeps for both. */
const ownNames = [
  "refs",
  "refs/heads",
  "refs/heads/sortie",
  "refs/sortie",
  "refs/sortie/base",
  "modules",
  "worktrees",
  // In its errors, git quotes what it does not understand in these.
  "packed-refs",
  "shallow",
  "info",
  "info/grafts",
];
const logNames = ["logs", "logs/HEAD", "logs/refs", "logs/refs/heads", "logs/refs/heads/sortie", "logs/refs/sortie"];

/** The path and all folders above it, except those that are checked in any case. */
const foldersOf = (path: string): string[] => {
  const names = path.split("/");
  return names.map((_, at) => names.slice(0, at + 1).join("/")).slice(2);
};

/**
 * Throws FileRefused for a link that leads out of the repository: through it, another repository's branches would be
 * taken for this one's, and git would write into another repository's files.
 */
const expectOwn = (folder: string, names: readonly string[]): void => {
  for (const name of names) {
    const path = join(folder, name);
    if (!isLink(path) || isInsideFolder(folder, name)) continue;
    if (statsAt(path)?.isDirectory() === false) expectBounded(path, Number.POSITIVE_INFINITY);
    throw new FileRefused("outside", `Expected a part of the repository at "${path}", got a link that leads out of it`);
  }
};

/**
 * Most folders that one list of alternates may name. Repositories have one or two, and each is checked with every
 * request.
 */
const mostAlternates = 100;
/** Most folders that a repository may borrow from in all. */
const mostBorrowed = 64;

/**
 * The object folders that the repository borrows from, and its own if that is a link; real paths, a bounded number.
 * Throws FileRefused if there are more than anybody has.
 */
export const borrowedBy = (commonDir: string): string[] => {
  const own = join(commonDir, "objects");
  const found: string[] = isLink(own) ? [realOf(own) ?? own] : [];
  const visit = (objects: string, depth: number): void => {
    const lines = new Set(alternatesIn(objects));
    if (lines.size > mostAlternates)
      throw new FileRefused(
        "too-big",
        `Expected at most ${mostAlternates} folders in "${join(objects, "info/alternates")}", got ${lines.size}`,
      );
    for (const line of lines) {
      const path = realOf(resolve(objects, line));
      if (path === undefined || found.includes(path)) continue;
      // git would borrow from the next one as well, which would then be unchecked.
      if (found.length >= mostBorrowed)
        throw new FileRefused(
          "too-big",
          `Expected a repository that borrows from at most ${mostBorrowed} folders, got more in "${join(objects, "info/alternates")}"`,
        );
      found.push(path);
      // git itself goes no deeper.
      if (depth < 5) visit(path, depth + 1);
    }
  };
  visit(own, 0);
  return found;
};

/** The lines of an object folder's `info/alternates`, as written. */
export const alternatesIn = (objects: string): string[] =>
  (textAt(join(objects, "info/alternates"), sizeLimits.pointer) ?? "")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
