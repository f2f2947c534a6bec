import { rmSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pace } from "../../pace.ts";
import { shellQuote } from "../../shell-quote.ts";
import { tempPrefix } from "../file/files.ts";
import { FileRefused, openFolder } from "../file/folder.ts";
import { encodePath } from "../file/path.ts";
import { removeTree } from "../file/remove-tree.ts";
import type { Git } from "../git/git.ts";
import { GitError } from "../git/run.ts";
import type { Commit } from "../object/commit.ts";
import { isServiceSetting } from "../object/take-over.ts";
import { hiddenIn, clearHiddenFlags } from "./hidden-flag.ts";
import { setHead } from "./git-dir.ts";
import { type Change, isIn, fileAt, specialOf, statusOf } from "./status.ts";
import type { TemporaryFile, TreeGit } from "./tree-git.ts";
import { retryWithOpenedFolders } from "./closed.ts";

/** Writes the tree on disk as the tree of the Task's commit, and resets a tree to a commit. */

export type Base = { commit: string; tree: string };

export type WriteTreeRequest = {
  git: TreeGit;
  worktree: string;
  /** The tree's Git directory on this machine. */
  gitDir: string;
  base: Base;
  /** Our last commit here; with it, one process detects that the tree is unchanged. */
  last: Commit | undefined;
  /** Folders that never enter a commit. */
  without?: readonly string[];
  /** Limit for all changed files together, holes included; files beyond it are left out. 0: no limit. */
  maxBytes: number;
};

export type WrittenTree =
  /** The tree equals that of the last commit; `last` undefined: of the base. */
  | { changed: false; last: Commit | undefined; omitted: Commit["omitted"] }
  /** `pack`: a file with the objects that neither the base nor the last commit has; disposing it deletes it. */
  | { changed: true; tree: string; pack: TemporaryFile; omitted: Commit["omitted"] };

/** State of an agent's unfinished merge or rebase, which would change what its git does next. */
const unfinished = [
  "MERGE_HEAD",
  "MERGE_MSG",
  "MERGE_MODE",
  "AUTO_MERGE",
  "SQUASH_MSG",
  "CHERRY_PICK_HEAD",
  "REVERT_HEAD",
  "rebase-merge",
  "rebase-apply",
  "sequencer",
];

/** Writes the files on disk as one tree, whatever agents did with commits and branches meanwhile. */
export const writeTree = async (request: WriteTreeRequest): Promise<WrittenTree> => {
  const { git, worktree, gitDir, base, last } = request;
  for (const name of unfinished) await removeTree(join(gitDir, name));
  await clearHiddenFlags(git, await hiddenIn(worktree, join(gitDir, "index"), base.commit.length / 2));

  let status = await statusOf(git);
  const ours = status.oid === last?.commit && last?.parent === base.commit;
  if (status.head !== detached || (status.oid !== base.commit && !ours)) {
    await setHead(gitDir, base.commit);
    status = await statusOf(git);
  }
  const { keep, omitted, unstage } = await sortChanges(worktree, status.changes, request);
  if (keep.length === 0 && unstage.length === 0)
    return { changed: false, last: status.oid === base.commit ? undefined : last, omitted };

  if (unstage.length > 0) await git.run(["update-index", "-z", "--index-info"], { input: restored(unstage) });
  const pack = git.temporary();
  const tree = await writeTreeAndPack(git, keep, [base.tree, ...(last === undefined ? [] : [last.tree])], pack);
  if (tree !== base.tree) return { changed: true, tree, pack, omitted };
  pack[Symbol.dispose]();
  await setHead(gitDir, base.commit);
  return { changed: false, last: undefined, omitted };
};

const detached = "(detached)";

/**
 * In one job: adds the changed files to the index, writes the index as a tree, and packs the objects that the trees
 * `known` do not have. Returns the tree's id.
 */
export const writeTreeAndPack = async (
  git: TreeGit,
  keep: readonly Change[],
  known: readonly string[],
  pack: TemporaryFile,
): Promise<string> => {
  const below = belowOthers(keep);
  using away = git.temporary();
  using list = git.temporary();
  if (below.size > 0) await writePaths(away, [...below]);
  await writePaths(
    list,
    keep.filter((change) => !below.has(change)),
  );
  const remove = git.line(["update-index", "-z", "--force-remove", "--stdin"]);
  const update = git.line(["update-index", "-z", "--add", "--remove", "--replace", "--stdin"]);
  const without = known.map((tree) => shellQuote(`^${tree}`)).join(" ");
  const script = [
    ...(below.size === 0 ? [] : [`${remove} <${shellQuote(away.path)} || exit`]),
    `${update} <${shellQuote(list.path)} || exit`,
    `tree=$(${git.line(["write-tree"])}) || exit`,
    `printf '%s\\n' "$tree"`,
    `printf '%s\\n' "$tree" ${without} | ${git.line(["pack-objects", "--revs", "--thin", "--stdout", "-q"])} >${shellQuote(pack.path)}`,
  ].join("\n");
  const { stdout } = await git.script("git write-tree", script, { timeoutMs: 10 * 60_000 });
  const tree = stdout.toString("latin1").trim();
  if (/^([0-9a-f]{40}|[0-9a-f]{64})$/.test(tree)) return tree;
  throw new GitError(`Expected git write-tree to name its tree, got "${tree.slice(0, 200)}"`, 0, "");
};

/**
 * Deleted files below a path that is a file or link now. git refuses to update a path "beyond a symbolic link", so they
 * are removed from the index first.
 */
const belowOthers = (keep: readonly Change[]): Set<Change> => {
  const there = new Set(keep.filter(({ gone }) => !gone).map(({ path }) => path));
  const isBelow = ({ path }: Change): boolean => {
    for (let at = path.indexOf("/"); at !== -1; at = path.indexOf("/", at + 1))
      if (there.has(path.slice(0, at))) return true;
    return false;
  };
  return new Set(keep.filter((change) => change.gone && isBelow(change)));
};

const writePaths = async ({ own }: TemporaryFile, changes: readonly Change[]): Promise<void> => {
  const parts: Buffer[] = [];
  for (const { path } of changes) {
    parts.push(encodePath(path), end);
    await pace();
  }
  await writeFile(own, Buffer.concat(parts), { flag: "wx", mode: 0o600 });
};

const end = Buffer.of(0);

const tooLarge = "too large:";

/** A file that a commit left out because all changed files together have too many bytes. */
export const isTooLarge = ({ reason }: Commit["omitted"][number]): boolean => reason.startsWith(tooLarge);

/**
 * Which changes enter the commit, which cannot, and which must leave the index again. `tidies`: removes the files of
 * interrupted writes; nothing may be writing.
 */
export const sortChanges = async (
  worktree: string,
  changes: readonly Change[],
  { without = [], maxBytes, tidies = true }: Pick<WriteTreeRequest, "without" | "maxBytes"> & { tidies?: boolean },
) => {
  let room = maxBytes === 0 ? Number.POSITIVE_INFINITY : maxBytes;
  // Holes count: a sparse file takes no space on the disk, but git would read all of it.
  const unfit = (file: ReturnType<typeof fileAt>): string | undefined => {
    if (file === undefined) return undefined;
    if (!file.readable) return "not readable";
    if (file.bytes > room) return `${tooLarge} changed files of more than ${maxBytes} bytes (limits.taskDiskBytes)`;
    room -= file.bytes;
    return undefined;
  };
  const keep: Change[] = [];
  const unstage: Change[] = [];
  const omitted: Commit["omitted"] = [];
  for (const change of changes) {
    await pace();
    const folder = without.find((path) => isIn(path, change));
    if (folder !== undefined) {
      if (!omitted.some(({ path }) => path === folder)) omitted.push({ path: folder, reason: "a dependency folder" });
      if (change.staged) unstage.push(change);
      continue;
    }
    const name = change.path.slice(change.path.lastIndexOf("/") + 1);
    const reason = isServiceSetting(change.path)
      ? "settings of the service, which no Task may change"
      : change.link
        ? change.headMode === "160000"
          ? "a submodule; its commit is not changed"
          : "a nested Git repository"
        : change.untracked && change.path.endsWith("/")
          ? "a nested Git repository"
          : (specialOf(`${worktree}/${change.path}`) ?? unfit(fileAt(`${worktree}/${change.path}`)));
    if (change.untracked && name.startsWith(tempPrefix)) {
      if (tidies) removeTemporary(worktree, change.path);
    } else if (reason === undefined) keep.push(change);
    else {
      omitted.push({ path: change.path.replace(/\/$/, ""), reason });
      if (change.staged) unstage.push(change);
    }
  }
  return { keep, unstage, omitted };
};

/**
 * Removes the file of an interrupted write. The folder is held open, because an agent may have put a link in its place.
 */
const removeTemporary = (worktree: string, path: string): void => {
  const components = path.split("/");
  const name = components.pop() ?? "";
  try {
    using folder = openFolder(worktree, components);
    rmSync(folder.at(name), { force: true });
  } catch (error) {
    if (!(error instanceof FileRefused)) throw error;
  }
};

/** Index entries as in HEAD, in the form of `update-index --index-info`; mode 0 removes. */
export const restored = (changes: readonly Change[]): Buffer =>
  Buffer.concat(
    changes.flatMap(({ headMode, headObject, path }) => {
      const mode = headMode === "000000" ? "0" : headMode;
      return [Buffer.from(`${mode} ${headObject}\t`), encodePath(path), Buffer.of(0)];
    }),
  );

/**
 * Restores tracked files to the commit and removes untracked ones; ignored files stay. One process when nothing
 * changed.
 */
export const resetTo = async (git: Git, commit: string, without: readonly string[] = []): Promise<void> => {
  const { oid, changes } = await statusOf(git);
  if (oid === commit && changes.length === 0) return;
  // Forced twice, so that nested repositories are removed too.
  const except = without.flatMap((path) => ["-e", patternOf(path)]);
  await retryWithOpenedFolders(git.root, async () => {
    await git.run(["reset", "-q", "--hard", commit], { timeoutMs: 10 * 60_000 });
    if (oid !== commit || changes.some((change) => change.untracked))
      await git.run(["clean", "-q", "-d", "-f", "-f", ...except]);
  });
};

/** An ignore pattern that matches exactly this path, from the top. */
export const patternOf = (path: string): string => `/${path.replace(/[\\*?[\]!# ]/g, "\\$&")}`;
