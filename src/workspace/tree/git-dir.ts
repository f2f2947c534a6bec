import { mkdirSync, realpathSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { copyBounded, sizeLimits, statsAt, textAt } from "../file/bounded-read.ts";
import { FileRefused } from "../file/folder.ts";
import { someEntries } from "../../process/sandbox/some-entries.ts";
import { isInsideFolder } from "../git/answer.ts";
import { removeTree } from "../file/remove-tree.ts";
import type { Author } from "../git/hardened.ts";
import { plainConfig } from "../git/plain-config.ts";

/**
 * Makes the Git directory of a worktree (gitrepository-layout(5)) without git. It lies beside the tree and is not a
 * linked worktree of the project's repository, from which it borrows only the objects. Its settings are the service's
 * own text, so that nothing the project or an agent configures runs.
 */

export type TaskGitDirRequest = {
  gitDir: string;
  /** The Git directory of the project's repository. */
  commonDir: string;
  /** The commit that HEAD names, detached. */
  head: string;
  /** The author of commits that an agent makes itself. */
  author: Author;
};

/** Loose refs beyond this number, and packed ones in a file of more bytes, are not shown to agents. */
const maxRefs = 500;
const maxPackedBytes = 1024 * 1024;
/** Most names read in search of loose refs: folders may hold very many names, and no ref. */
const maxNames = 5000;

/** Makes the directory anew; whatever was there is removed. No process that could write there may be running. */
export const makeGitDir = async ({ gitDir, commonDir, head, author }: TaskGitDirRequest): Promise<void> => {
  await removeTree(gitDir);
  for (const name of ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"])
    mkdirSync(join(gitDir, name), { recursive: true, mode: 0o700 });
  writeFileSync(join(gitDir, "objects/info/alternates"), `${quotedPath(objectsOf(commonDir))}\n`);
  writeFileSync(join(gitDir, "config"), configOf(commonDir, head, author));
  // Agents can read the copies, and a link could lead to any file of this machine.
  for (const name of ["shallow", "info/exclude", "info/attributes"])
    if (isInsideFolder(commonDir, name))
      await ignoringRefused(() => copyBounded(join(commonDir, name), join(gitDir, name), sizeLimits.config));
  await ignoringRefused(() => writeFileSync(join(gitDir, "packed-refs"), refsOf(commonDir)));
  writeFileSync(join(gitDir, "HEAD"), `${head}\n`);
};

/** The real path of the folder of a repository's objects. */
export const objectsOf = (commonDir: string): string => realpathSync.native(join(commonDir, "objects"));

/** A path as `objects/info/alternates` and the variables for alternates take it. */
export const quotedPath = (path: string): string =>
  /[":\n]/.test(path) ? `"${path.replace(/["\\]/g, "\\$&").replaceAll("\n", "\\n")}"` : path;

/** Sets HEAD, whatever is there: an agent may write this folder. */
export const setHead = async (gitDir: string, commit: string): Promise<void> => {
  const next = join(gitDir, "HEAD.sortie");
  await removeTree(next);
  writeFileSync(next, `${commit}\n`, { flag: "wx" });
  try {
    renameSync(next, join(gitDir, "HEAD"));
  } catch {
    // An agent put a folder in its place.
    await removeTree(join(gitDir, "HEAD"));
    renameSync(next, join(gitDir, "HEAD"));
  }
};

/** Removes the locks that a killed git left; no other git works here. */
export const removeLocks = async (gitDir: string): Promise<void> => {
  for (const name of ["index.lock", "HEAD.lock", "packed-refs.lock"]) await removeTree(join(gitDir, name));
};

const ignoringRefused = async (copy: () => unknown): Promise<void> => {
  try {
    await copy();
  } catch (error) {
    if (!(error instanceof FileRefused)) throw error;
  }
};

const configOf = (commonDir: string, head: string, author: Author): string => {
  const kept = plainConfig(join(commonDir, "config"))
    .split("\n")
    .filter((line) => !/^\s*(repositoryformatversion|bare|refstorage|worktreeconfig|objectformat)\b/i.test(line));
  return [
    ...kept,
    "[core]",
    "\trepositoryformatversion = 1",
    "\tbare = false",
    "[extensions]",
    `\tobjectformat = ${head.length === 64 ? "sha256" : "sha1"}`,
    "[user]",
    `\tname = ${JSON.stringify(author.name)}`,
    `\temail = ${JSON.stringify(author.email)}`,
    "[gc]",
    "\tauto = 0",
    "",
  ].join("\n");
};

/** The project's branches and tags in the format of `packed-refs`, so that agents can name them. */
const refsOf = (commonDir: string): string => {
  const refs = new Map<string, string>();
  const packed = join(commonDir, "packed-refs");
  const few = isInsideFolder(commonDir, "packed-refs") && (statsAt(packed)?.size ?? 0) <= maxPackedBytes;
  for (const line of (few ? (textAt(packed, sizeLimits.refs) ?? "") : "").split("\n")) {
    const [id = "", name] = line.split(" ");
    if (name !== undefined && isId.test(id)) refs.set(name, id);
  }
  for (const folder of ["refs/heads", "refs/tags", "refs/remotes"]) looseRefs(commonDir, folder, refs);
  return [...refs]
    .filter(([name]) => !name.startsWith("refs/sortie/") && !name.startsWith("refs/heads/sortie/"))
    .map(([name, id]) => `${id} ${name}\n`)
    .join("");
};

const isId = /^([0-9a-f]{40}|[0-9a-f]{64})$/;

const looseRefs = (commonDir: string, top: string, refs: Map<string, string>): void => {
  const queue = [top];
  let seen = 0;
  let left = maxNames;
  for (let at = 0; at < queue.length; at += 1) {
    const folder = queue[at] ?? top;
    if (left <= 0 || !isInsideFolder(commonDir, folder)) continue;
    const { entries } = someEntries(join(commonDir, folder), left);
    left -= entries.length;
    for (const entry of entries) {
      const name = `${folder}/${entry.name}`;
      if (name === "refs/heads/sortie") continue;
      if (entry.isDirectory()) queue.push(name);
      else if (entry.isFile() && !entry.name.endsWith(".lock")) {
        if ((seen += 1) > maxRefs) return;
        const id = textAt(join(commonDir, name), sizeLimits.pointer)?.trim() ?? "";
        if (isId.test(id)) refs.set(name, id);
      }
    }
  }
};
