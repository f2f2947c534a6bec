import {
  closeSync,
  constants,
  chmodSync,
  fchmodSync,
  fstatSync,
  lstatSync,
  openSync,
  renameSync,
  rmSync,
  type Stats,
} from "node:fs";
import { copyBounded } from "../file/bounded-read.ts";
import { FileRefused, type Folder, openFolder } from "../file/folder.ts";
import { tempName } from "../file/files.ts";
import { decodePath } from "../file/path.ts";
import type { Workspace } from "../workspace.ts";

/**
 * Clears the set-user-ID and set-group-ID bits of files that a Task left in the user's directory: whoever ran such a
 * file would run it as the service's user. A folder's set-group-ID is ordinary and stays.
 */

const setID = 0o6000;

/**
 * Most bytes of names taken from one search, so that other work of the service gets a turn in between; and most
 * searches.
 */
const mostNames = 64 * 1024;
const mostSearches = 200;

/** Bytes. A larger file that has other names outside is removed instead of copied. */
const longestCopy = 256 * 1024 * 1024;

const timeoutMs = 120_000;

/** Milliseconds by which the clock of a file system may be behind. */
const skewMs = 2000;

const search = ["-xdev", "-type", "f", "(", "-perm", "-4000", "-o", "-perm", "-2000", ")", "-print0"];

type Place = Pick<Workspace, "root" | "runProgram">;

/** Paths of files with such a bit; `more`: there are others. Throws if the search fails. */
const find = async ({ root, runProgram }: Place, signal: AbortSignal): Promise<{ paths: string[]; more: boolean }> => {
  const enough = new AbortController();
  const chunks: Buffer[] = [];
  let size = 0;
  const ran = await runProgram({ name: "find", path: "find" }, [".", ...search], {
    cwd: root,
    timeoutMs,
    keepBytes: 2000,
    signal: AbortSignal.any([signal, enough.signal]),
    onStdout(chunk) {
      if (size > mostNames) return;
      chunks.push(chunk);
      size += chunk.length;
      if (size > mostNames) enough.abort();
    },
  });
  signal.throwIfAborted();
  const more = enough.signal.aborted;
  if (!more && (ran.ended !== "exit" || ran.exitCode === null || ran.exitCode > 1))
    throw new Error(`Expected find to search ${root}, got ${ran.ended} ${ran.exitCode}: ${ran.output.slice(0, 300)}`);
  const text = Buffer.concat(chunks);
  const paths: string[] = [];
  for (let at = 0, end = text.indexOf(0); end !== -1; at = end + 1, end = text.indexOf(0, at))
    paths.push(decodePath(text.subarray(at, end)).replace(/^\.\//, ""));
  return { paths, more };
};

/** Opens the file by name only, so that no right to read it is needed. */
const asPath = process.platform === "linux" ? 0o10_000_000 : constants.O_RDONLY;

const clear = (path: string | Buffer, seen: Stats): void => {
  const fd = openSync(path, asPath | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(fd);
    if (stats.ino !== seen.ino || stats.dev !== seen.dev) return;
    const mode = stats.mode & 0o7777 & ~setID;
    if (process.platform === "linux") chmodSync(`/proc/self/fd/${fd}`, mode);
    else fchmodSync(fd, mode);
  } finally {
    closeSync(fd);
  }
};

/** Makes this name a file of its own: the file has other names outside, where the bits may be wanted. */
const separate = async (folder: Folder, name: string, { mode, size }: Stats): Promise<void> => {
  const path = folder.at(name);
  const temp = folder.at(tempName());
  try {
    if (size > longestCopy || !(await copyBounded(String(path), String(temp), longestCopy))) rmSync(path);
    else {
      chmodSync(temp, mode & 0o777);
      renameSync(temp, path);
    }
  } catch (error) {
    rmSync(temp, { force: true });
    if (!(error instanceof FileRefused)) throw error;
    rmSync(path);
  }
};

/**
 * Clears the bits of the files of one search; files unchanged since `since` are the user's and stay as they are.
 * Returns the paths.
 */
const clearAll = async (root: string, paths: readonly string[], since: number): Promise<string[]> => {
  const names = new Map<number, number>();
  const found = paths.flatMap((path) => {
    try {
      const components = path.split("/");
      const name = components.pop() ?? "";
      using folder = openFolder(root, components);
      const stats = lstatSync(folder.at(name));
      if (!stats.isFile() || (stats.mode & setID) === 0 || stats.ctimeMs < since) return [];
      names.set(stats.ino, (names.get(stats.ino) ?? 0) + 1);
      return [{ path, components, name, stats }];
    } catch {
      return [];
    }
  });
  const cleared: string[] = [];
  for (const { path, components, name, stats } of found)
    try {
      using folder = openFolder(root, components);
      if (stats.nlink > (names.get(stats.ino) ?? 0)) await separate(folder, name, stats);
      else clear(folder.at(name), stats);
      cleared.push(path);
    } catch {}
  return cleared;
};

/**
 * Clears the bits of files made or changed since then; programs for this run in the Task's sandbox. Resolves to the
 * paths. Call it when no process of the Task's runs.
 */
export const clearSetID = async (workspace: Place, since: Date, signal: AbortSignal): Promise<string[]> => {
  const cleared: string[] = [];
  for (let count = 0; count < mostSearches; count += 1) {
    const { paths, more } = await find(workspace, signal);
    const now = await clearAll(workspace.root, paths, since.getTime() - skewMs);
    cleared.push(...now);
    if (!more || now.length === 0) return cleared;
  }
  throw new Error(`Expected to find them all in ${mostSearches} searches, got ${cleared.length} and more`);
};
