import { closeSync, constants, fstatSync, lstatSync, openSync, readSync, type Stats, statSync } from "node:fs";
import { copyFile } from "node:fs/promises";
import { errorCode } from "../../error.ts";
import { FileRefused } from "./folder.ts";

/**
 * Reads files of a project or of its Git directory, which anybody may have put there: a FIFO would block for ever, a
 * device or a sparse file fill the memory. Only regular files up to a limit are read, never blocking; anything else
 * throws FileRefused, which names the path, what was expected and what is there.
 */

/**
 * Limits in bytes. `pointer`: files of one line. `config`: room for ten thousand branches. A larger file is not one
 * that git wrote.
 */
export const sizeLimits = {
  pointer: 64 * 1024,
  config: 1024 * 1024,
  refs: 64 * 1024 * 1024,
  index: 256 * 1024 * 1024,
} as const;

type Options = {
  /** Follows no link in the last component; a link counts as not regular. */
  nofollow?: boolean;
  /** Reads at most this many bytes from the start, however many there are. */
  first?: number;
};

const kindOf = (stats: Stats): string => {
  if (stats.isDirectory()) return "a folder";
  if (stats.isFIFO()) return "a FIFO";
  if (stats.isSocket()) return "a socket";
  if (stats.isSymbolicLink()) return "a symbolic link";
  return "a device";
};

/**
 * Stats of the path, links followed; undefined: nothing is there, or it cannot be reached. Never throws, never blocks.
 */
export const statsAt = (path: string): Stats | undefined => {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
};

const expectRegular = (path: string, stats: Stats, limit: number): void => {
  if (!stats.isFile())
    throw new FileRefused("not-a-file", `Expected a regular file at "${path}", got ${kindOf(stats)}`);
  if (stats.size > limit)
    throw new FileRefused("too-big", `Expected at most ${limit} bytes in "${path}", got ${stats.size}`);
};

/** Throws FileRefused if `readBounded` would refuse the file at the path. */
export const expectBounded = (path: string, limit: number): void => {
  const stats = statsAt(path);
  if (stats !== undefined) expectRegular(path, stats, limit);
};

const flagsOf = (options: Options) =>
  constants.O_RDONLY |
  constants.O_NONBLOCK |
  constants.O_NOCTTY |
  (options.nofollow === true ? constants.O_NOFOLLOW : 0);

/** Checks the file before it is opened, because opening a device can have side effects. false: nothing is there. */
const isThere = (path: string, limit: number, options: Options): boolean => {
  const look = options.nofollow === true ? lstatSync : statSync;
  let stats: Stats | undefined;
  try {
    stats = look(path, { throwIfNoEntry: false });
  } catch {}
  if (stats !== undefined) expectRegular(path, stats, options.first === undefined ? limit : Number.POSITIVE_INFINITY);
  return stats !== undefined;
};

const tooBig = (path: string, limit: number) =>
  new FileRefused("too-big", `Expected at most ${limit} bytes in "${path}", got more`);

/** The file's bytes; undefined: there is no file, or it may not be read. */
export const readBounded = (path: string, limit: number, options: Options = {}): Buffer | undefined => {
  if (!isThere(path, limit, options)) return undefined;
  let fd: number;
  try {
    fd = openSync(path, flagsOf(options));
  } catch {
    return undefined;
  }
  try {
    const stats = fstatSync(fd);
    const { first } = options;
    expectRegular(path, stats, first === undefined ? limit : Number.POSITIVE_INFINITY);
    // One byte more than expected: a file may have grown meanwhile, or report no size.
    let bytes = Buffer.allocUnsafe(first ?? stats.size + 1);
    for (let length = 0; ; ) {
      const count = readSync(fd, bytes, length, bytes.length - length, null);
      length += count;
      if (count === 0 || length === first || (length === stats.size && first === undefined))
        return bytes.subarray(0, length);
      if (length > limit) throw tooBig(path, limit);
      if (length === bytes.length) bytes = Buffer.concat([bytes], Math.min(limit + 1, length * 2 + 4096));
    }
  } finally {
    closeSync(fd);
  }
};

/** Like `readBounded`, decoded as UTF-8. */
export const textAt = (path: string, limit: number, options?: Options): string | undefined =>
  readBounded(path, limit, options)?.toString("utf8");

/**
 * Opens a regular file up to the limit, following no link, for a process that reads it. Throws FileRefused or ENOENT.
 */
export const openRegular = (path: string, limit: number): { fd: number } & Disposable => {
  const fd = openSync(path, flagsOf({ nofollow: true }));
  try {
    expectRegular(path, fstatSync(fd), limit);
    return { fd, [Symbol.dispose]: () => closeSync(fd) };
  } catch (error) {
    closeSync(fd);
    throw error;
  }
};

/** Copies a regular file up to the limit; false: there is no file. */
export const copyBounded = async (from: string, to: string, limit: number): Promise<boolean> => {
  if (!isThere(from, limit, {})) return false;
  let fd: number;
  try {
    fd = openSync(from, flagsOf({}));
  } catch (error) {
    if (errorCode(error) === "ENOENT") return false;
    throw error;
  }
  try {
    expectRegular(from, fstatSync(fd), limit);
    // Copies the file that was checked, even if another one is at its path by now.
    await copyFile(process.platform === "linux" ? `/proc/self/fd/${fd}` : from, to);
    return true;
  } finally {
    closeSync(fd);
  }
};
