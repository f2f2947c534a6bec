import { accessSync, constants, existsSync, lstatSync, rmSync, statSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { errorCode } from "../../error.ts";
import { pace } from "../../pace.ts";
import { isSecret } from "../../domain/permission/secret-path.ts";
import type { Limits } from "../../protocol/limit.ts";
import { hiddenIn, clearHiddenFlags } from "../tree/hidden-flag.ts";
import { specialOf, statusOf } from "../tree/status.ts";
import { idOf, splitNul } from "../git/output.ts";
import { type Git, GitError } from "../git/git.ts";
import type { WorktreeRecord } from "../record.ts";
import { copyBounded, sizeLimits } from "../file/bounded-read.ts";
import { encodePath, osPath } from "../file/path.ts";
import type { Commit } from "../object/commit.ts";

/**
 * Takes a snapshot of the user's directory: a commit on its HEAD that is on no branch of the user's. Index, stash, refs
 * and files are not touched: git works in a copy of the index, whose stat data makes it cheap. A clean directory costs
 * one `git status`, and its snapshot is HEAD itself.
 */

type Omitted = Commit["omitted"];

export type SnapshotResult = {
  head: string;
  commit: string;
  tree: string | undefined;
  untracked: string[];
  omitted: Omitted;
};

/** The snapshot where nobody edits files: the commit itself. */
export const plainSnapshot = (commit: string): SnapshotResult => ({
  head: commit,
  commit,
  tree: undefined,
  untracked: [],
  omitted: [],
});

export type SnapshotRequest = {
  /** git in the project's own files. */
  git: Git;
  record: WorktreeRecord;
  taskID: string;
  /** The commit that the directory was at when it was inspected. */
  head: string;
  /**
   * See `indexCopyOf`. A copy that is there already was left when the service died during an earlier snapshot, and is
   * of an older index.
   */
  scratch: string;
  limits: Pick<Limits, "snapshotFileBytes" | "snapshotBytes" | "snapshotFiles">;
  /** What agents may not read; default: names that usually hold secrets. */
  isProtected: ((path: string) => boolean) | undefined;
  /** See `PrepareRequest`. */
  withoutSquads: boolean;
};

/** At any depth, because the project may be a folder of the repository. */
const squadFile = /(?:^|\/)\.sortie\/squads\//;

/** Our path for the copy of the project's index that a Task's snapshot is made with. */
export const indexCopyOf = (home: string, taskID: string): string => join(home, `${taskID}.index`);

export const removeIndexCopy = (copy: string): void => {
  rmSync(copy, { force: true });
  rmSync(`${copy}.lock`, { force: true });
};

/** Makes git write the copy as a whole: a split index would share a part with the user's. */
const whole = ["-c", "core.splitIndex=false"];

/** Number of omitted paths listed by name; the rest is counted. */
const mostNamed = 200;

/** `tree` is undefined where the commit is the directory's own HEAD. */
export const takeSnapshot = async (request: SnapshotRequest): Promise<SnapshotResult> => {
  const { git, record, taskID, scratch } = request;
  removeIndexCopy(scratch);
  try {
    const env = await unhide(request);
    const patience = { timeoutMs: 10 * 60_000 };
    const status = await statusOf(git, [], ["--untracked-files=normal"], { env, ...patience });
    const head = status.oid;
    if (status.changes.length === 0) return { head, commit: head, tree: undefined, untracked: [], omitted: [] };

    const tracked = status.changes.filter((change) => !change.untracked);
    const unknown = await chosen(
      request,
      status.changes.filter((change) => change.untracked).map(({ path }) => path),
    );
    if (request.withoutSquads) unknown.paths = unknown.paths.filter((path) => !squadFile.test(path));
    const omitted = unknown.omitted;
    const keep: string[] = [];
    const filtered = await filteredOf(git, [...tracked.map(({ path }) => path), ...unknown.paths]);
    for (const { path, link } of [...tracked, ...unknown.paths.map((path) => ({ path, link: false }))]) {
      await pace();
      const reason = link
        ? "a submodule; it stays at the commit in the index"
        : filtered.has(path)
          ? "its content requires a filter, which is not run"
          : (specialOf(`${record.toplevel}/${path}`) ?? closedOf(`${record.toplevel}/${path}`));
      if (reason === undefined) keep.push(path);
      else omitted.push({ path, reason });
    }
    const all = new Set(unknown.paths);
    const untracked = keep.filter((path) => all.has(path)).sort();
    const named = shorten(omitted);
    if (!existsSync(scratch)) await copyIndex(record, scratch);
    const inCopy = { env: { GIT_INDEX_FILE: scratch }, ...patience };
    const input = Buffer.concat(keep.flatMap((path) => [encodePath(path), Buffer.of(0)]));
    const update = [...whole, "update-index", "-z", "--add", "--remove", "--replace", "--stdin"];
    if (keep.length > 0) await git.run(update, { ...inCopy, input });
    const tree = (await git.run([...whole, "write-tree"], inCopy)).stdout.toString("latin1").trim();
    if (tree === (await idOf(git, `${head}^{tree}`)))
      return { head, commit: head, tree: undefined, untracked: [], omitted: named };
    const message = `Snapshot for ${taskID}\n\nWhat ${record.toplevel} held beyond ${head}, not committed by its user.\n`;
    const made = await git.run(["commit-tree", tree, "-p", head, "-F", "-"], { input: message });
    return { head, commit: made.stdout.toString("latin1").trim(), tree, untracked, omitted: named };
  } finally {
    removeIndexCopy(scratch);
  }
};

const copyIndex = async (record: WorktreeRecord, scratch: string): Promise<void> => {
  const index = join(record.projectGitDir, "index");
  if (!(await copyBounded(index, scratch, sizeLimits.index))) return;
  // git trusts a file older than its index without reading it: the copy must not look newer than the original.
  const seconds = Math.floor(statSync(index).mtimeMs / 1000);
  utimesSync(scratch, seconds, seconds);
};

/**
 * Clears the flags by which the user's index tells git not to look at a file, in the copy of the index: edits of such
 * files belong to the snapshot. Returns the environment for git; empty: there are no flags, and no copy was made.
 */
const unhide = async ({ git, record, head, scratch }: SnapshotRequest): Promise<Record<string, string>> => {
  const hidden = await hiddenIn(record.toplevel, join(record.projectGitDir, "index"), head.length / 2);
  if (hidden.length === 0) return {};
  await copyIndex(record, scratch);
  const env = { GIT_INDEX_FILE: scratch };
  await clearHiddenFlags(git, hidden, env);
  return env;
};

/**
 * The untracked files to include, within the limits; those in untracked folders, too. An entry that exceeds a limit is
 * omitted.
 */
const chosen = async (
  { git, record, limits, isProtected = isSecret }: SnapshotRequest,
  entries: readonly string[],
): Promise<{ paths: string[]; omitted: Omitted }> => {
  const omitted: Omitted = [];
  const folders = entries.filter((path) => path.endsWith("/"));
  const inside = folders.length === 0 ? [] : await filesIn(git, folders);
  const tooMany = (path: string) => omitted.push({ path, reason: `untracked, and too many files to list` });
  if (inside === undefined) for (const folder of folders) tooMany(folder);

  const groups = new Map<string, { paths: string[]; bytes: number }>();
  for (const path of entries) if (!path.endsWith("/")) groups.set(path, { paths: [path], bytes: 0 });
  let at = 0;
  // Both lists are in git's order: the files of a folder follow it and precede the next folder.
  const sorted = folders.toSorted((a, b) => Buffer.compare(encodePath(a), encodePath(b)));
  for (const path of (inside ?? []).toSorted((a, b) => Buffer.compare(encodePath(a), encodePath(b)))) {
    while (at < sorted.length && !path.startsWith(sorted[at] ?? "")) at += 1;
    const folder = sorted[at] ?? path;
    if (path.endsWith("/")) omitted.push({ path: path.slice(0, -1), reason: "a nested Git repository" });
    else {
      const group = groups.get(folder) ?? { paths: [], bytes: 0 };
      group.paths.push(path);
      groups.set(folder, group);
    }
  }

  const sized: { entry: string; paths: string[]; bytes: number }[] = [];
  for (const [entry, group] of groups) {
    if (group.paths.length > limits.snapshotFiles) {
      omitted.push({ path: entry, reason: `untracked, ${group.paths.length} files; at most ${limits.snapshotFiles}` });
      continue;
    }
    const paths: string[] = [];
    let bytes = 0;
    for (const path of group.paths) {
      await pace();
      if (isProtected(path)) {
        omitted.push({ path, reason: "untracked, and its name suggests a secret" });
        continue;
      }
      const size = lstatSync(osPath(`${record.toplevel}/${path}`), { throwIfNoEntry: false })?.size ?? 0;
      if (size > limits.snapshotFileBytes)
        omitted.push({ path, reason: `untracked, ${size} bytes; at most ${limits.snapshotFileBytes} a file` });
      else {
        paths.push(path);
        bytes += size;
      }
    }
    sized.push({ entry, paths, bytes });
  }
  let files = 0;
  let total = 0;
  const kept: string[] = [];
  for (const { entry, paths, bytes } of sized.toSorted(
    (a, b) => a.bytes - b.bytes || a.paths.length - b.paths.length,
  )) {
    if (files + paths.length > limits.snapshotFiles || total + bytes > limits.snapshotBytes) {
      const most = `${limits.snapshotFiles} files and ${limits.snapshotBytes} bytes in all`;
      omitted.push({ path: entry, reason: `untracked, ${paths.length} files of ${bytes} bytes; at most ${most}` });
      continue;
    }
    files += paths.length;
    total += bytes;
    kept.push(...paths);
  }
  return { paths: kept, omitted };
};

/** The untracked files in these folders; undefined: too many to list. */
const filesIn = async (git: Git, folders: readonly string[]): Promise<string[] | undefined> => {
  const list = ["ls-files", "-z", "--others", "--exclude-standard", "--full-name", "--"];
  try {
    const known = folders.every((path) => path.isWellFormed()) && folders.join("").length < 100_000;
    const { stdout } = await git.run([...list, ...(known ? folders : [])]);
    const found = splitNul(stdout);
    return known ? found : found.filter((path) => folders.some((folder) => path.startsWith(folder)));
  } catch (error) {
    if (error instanceof GitError && error.exitCode === null) return undefined;
    throw error;
  }
};

/**
 * Paths with a content filter (large file storage, encryption), without which git would store other bytes than the
 * user's git.
 */
const filteredOf = async (git: Git, paths: readonly string[]): Promise<Set<string>> => {
  if (paths.length === 0) return new Set();
  const input = Buffer.concat(paths.flatMap((path) => [encodePath(path), Buffer.of(0)]));
  const { stdout } = await git.run(["check-attr", "-z", "--stdin", "filter"], { input });
  const parts = splitNul(stdout);
  const filtered = new Set<string>();
  for (let at = 0; at + 2 < parts.length; at += 3)
    if (!["unspecified", "unset", "set"].includes(parts[at + 2] ?? "")) filtered.add(parts[at] ?? "");
  return filtered;
};

const closedOf = (path: string): string | undefined => {
  try {
    const stats = lstatSync(osPath(path));
    if (stats.isFile()) accessSync(osPath(path), constants.R_OK);
    return undefined;
  } catch (error) {
    return errorCode(error) === "EACCES" ? "not readable" : undefined;
  }
};

const shorten = (omitted: Omitted): Omitted => {
  const sorted = omitted.toSorted((a, b) => (a.path < b.path ? -1 : 1));
  if (sorted.length <= mostNamed) return sorted;
  return [...sorted.slice(0, mostNamed), { path: "…", reason: `and ${sorted.length - mostNamed} more` }];
};
