import {
  constants,
  fchmodSync,
  fstatSync,
  fsync,
  realpathSync,
  renameSync,
  rmdirSync,
  type Stats,
  unlinkSync,
} from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { promisify } from "node:util";
import { errorCode } from "../../error.ts";
import { isSecret } from "../../domain/permission/secret-path.ts";
import { pace } from "../../pace.ts";
import { inThread } from "../../thread.ts";
import { decodePath, osPath } from "./path.ts";
import { FileRefused, type Folder, openFolder, realPathOf, statsIn, tooLong } from "./folder.ts";
import { tempName } from "./temp.ts";
import {
  type Entry,
  isGit,
  kindOf,
  listFolder,
  type Listing,
  listing,
  tidyFolder,
  tidying,
  type Walked,
} from "./walk.ts";

/** File access confined to one root. */

export { decodePath, encodePath } from "./path.ts";
export { tempName, tempPrefix } from "./temp.ts";
export type { Entry } from "./walk.ts";
export { FileRefused };

/**
 * Paths are relative to the root, `/`-separated. Every operation rejects with FileRefused when the access is not
 * allowed or not possible.
 */
export interface Files {
  readonly root: string;
  /** Converts an absolute path below the root to a relative one; returns any other path unchanged. */
  inside: (path: string) => string;
  /** Whether the name may be read. For callers that know a file's content without opening it. */
  mayRead(path: string): boolean;
  /** Whether the name may be written or removed, for callers that change either all of several files or none. */
  mayWrite(path: string): boolean;
  read(path: string, maxBytes: number): Promise<{ bytes: Buffer; executable: boolean }>;
  /** Creates missing folders; replaces atomically; keeps the mode of an existing file. */
  write(
    path: string,
    bytes: string | Uint8Array | AsyncIterable<Uint8Array>,
    options?: { executable?: boolean },
  ): Promise<{ created: boolean }>;
  remove(path: string): Promise<void>;
  /** The entry at the path itself, no link followed; undefined: nothing is there. */
  stat(path: string): Promise<Entry | undefined>;
  /** Rejects unless the path is a folder that can be opened. */
  expectFolder(path: string): Promise<void>;
  /** Entries of one folder by name; with `depth`, of the folders below too. `.git` is never listed. */
  list(path: string, options?: { depth?: number; offset?: number; limit?: number }): Promise<Listing>;
  /** Removes half-written files of a killed service. No write may be in progress below this root. */
  tidy(): Promise<void>;
}

/**
 * Splits a relative path into components. Refuses any that leads up, outside, or into `.git`. "" and "." are the root.
 */
export const componentsOf = (path: string): string[] => {
  if (path.includes("\0")) throw new FileRefused("outside", "Expected a path without NUL bytes");
  if (path.startsWith("/")) throw new FileRefused("outside", `Expected a path inside the project, got "${path}"`);
  const components = path.split("/").filter((name) => name !== "" && name !== ".");
  if (components.includes(".."))
    throw new FileRefused("outside", `Expected a path inside the project without "..", got "${path}"`);
  if (components.some(isGit))
    throw new FileRefused("protected", `Expected a path outside .git, got "${path}"; use the git tool`);
  return components;
};

const sync = promisify(fsync);

const shownKind = (stats: Stats): string => {
  const kind = kindOf(stats);
  return kind === "other" ? "a FIFO, socket or device" : `a ${kind}`;
};

/** Most names that a walk visits at once, on this thread; a larger walk runs in a thread of its own. */
const mostNames = 1000;

const doneBy = <T>(result: Walked<T>): T => {
  if (result === "too many") throw new Error("Expected a walk without a bound on names to have an end.");
  if ("refused" in result) throw new FileRefused(result.refused.kind, result.refused.message);
  return result.done;
};

/**
 * `root` may contain links. `isProtected`: the paths that are refused; by default those whose names usually hold
 * secrets, of which an operator may allow some.
 */
export const createFiles = (root: string, isProtected?: (path: string) => boolean): Files =>
  createTreeFiles(decodePath(realpathSync.native(osPath(root), { encoding: "buffer" })), isProtected);

/**
 * Files of a folder that agents shape, and may have replaced by a link since it was made: `real` is the folder's real
 * path, and a link found there is refused. `alias`: the root's path as commands see it; a path below it counts as below
 * the root.
 */
export const createTreeFiles = (
  real: string,
  isProtected: (path: string) => boolean = isSecret,
  alias?: string,
): Files => {
  const inside = (path: string) => {
    for (const base of alias === undefined ? [real] : [real, alias])
      if (path === base || path.startsWith(`${base}/`)) return path.slice(base.length + 1);
    return path;
  };

  const check = (path: string): string[] => {
    const components = componentsOf(inside(path));
    if (isProtected(components.join("/")))
      throw new FileRefused("protected", `Expected a file without secrets, got "${path}"; its name is protected`);
    return components;
  };

  const openForRead = async (path: string, followed = false): Promise<FileHandle> => {
    try {
      // Non-blocking, so that a FIFO cannot block us; its type is checked before a byte is read.
      return await open(osPath(path), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    } catch (error) {
      const shown = path.slice(real.length + 1);
      switch (errorCode(error)) {
        case "ELOOP": {
          if (followed) throw new FileRefused("linked", `Expected a file at "${shown}", got a symbolic link`);
          const target = targetOf(path);
          if (target === undefined || !target.startsWith(`${real}/`))
            throw new FileRefused("outside", `Expected "${shown}" inside the project, got a link that leads out of it`);
          check(target);
          return openForRead(target, true);
        }
        case "ENOENT":
        case "ENOTDIR":
          throw new FileRefused("missing", `Expected a file at "${shown}", got nothing there`);
        case "ENAMETOOLONG":
          throw tooLong(shown);
        case "ENXIO":
          throw new FileRefused("not-a-file", `Expected a regular file at "${shown}", got a socket or device`);
        case undefined:
        default:
          throw error;
      }
    }
  };
  const targetOf = (path: string): string | undefined => {
    try {
      return decodePath(realpathSync.native(osPath(path), { encoding: "buffer" }));
    } catch {
      return undefined;
    }
  };

  const read: Files["read"] = async (path, maxBytes) => {
    const components = check(path);
    if (components.length === 0) throw new FileRefused("not-a-file", "Expected a file, got the project's root folder");
    await using handle = await openForRead(`${real}/${components.join("/")}`);
    const stats = fstatSync(handle.fd);
    if (!stats.isFile())
      throw new FileRefused("not-a-file", `Expected a regular file at "${path}", got ${shownKind(stats)}`);
    const leads = realPathOf(handle.fd, `${real}/${components.join("/")}`);
    if (!leads.startsWith(`${real}/`))
      throw new FileRefused("outside", `Expected "${path}" inside the project, got a link that leads out of it`);
    check(leads);
    if (stats.size > maxBytes)
      throw new FileRefused("too-big", `Expected at most ${maxBytes} bytes in "${path}", got ${stats.size}`);
    // Reads up to the size reported now, even if the file grows; files such as those of /proc report 0.
    const bytes = Buffer.allocUnsafe(Math.min(maxBytes, stats.size) + 1);
    let length = 0;
    while (length < bytes.length) {
      const { bytesRead } = await handle.read(bytes, length, bytes.length - length, length);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    return { bytes: bytes.subarray(0, Math.min(length, stats.size)), executable: (stats.mode & 0o111) !== 0 };
  };

  /**
   * Stats of the name in the folder; undefined: nothing is there. Refuses anything but a regular file with one name.
   */
  const present = (folder: Folder, name: string, path: string): Stats | undefined => {
    const stats = statsIn(folder, name);
    if (stats === undefined) return undefined;
    if (stats.isSymbolicLink())
      throw new FileRefused("linked", `Expected a file at "${path}", got a symbolic link; name its target instead`);
    if (!stats.isFile())
      throw new FileRefused("not-a-file", `Expected a regular file at "${path}", got ${shownKind(stats)}`);
    if (stats.nlink > 1)
      throw new FileRefused(
        "linked",
        `Expected a file with one name at "${path}", got one of ${stats.nlink} hard links`,
      );
    return stats;
  };

  const write: Files["write"] = async (path, bytes, options = {}) => {
    const components = check(path);
    const name = components.pop();
    if (name === undefined) throw new FileRefused("not-a-file", "Expected a file, got the project's root folder");
    using folder = openFolder(real, components, true);
    const before = present(folder, name, path);
    const mode = before === undefined ? 0o666 : before.mode & 0o777;
    const temp = folder.at(tempName());
    const handle = await open(
      temp,
      constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW,
      mode,
    );
    try {
      await handle.writeFile(bytes);
      if (before !== undefined) fchmodSync(handle.fd, mode);
      if (options.executable !== undefined) {
        const now = fstatSync(handle.fd).mode & 0o777;
        fchmodSync(handle.fd, options.executable ? now | ((now & 0o444) >> 2) : now & ~0o111);
      }
      await handle.sync();
      renameSync(temp, folder.at(name));
    } catch (error) {
      try {
        unlinkSync(temp);
      } catch {}
      if (errorCode(error) === "EISDIR")
        throw new FileRefused("not-a-file", `Expected a file at "${path}", got a folder`);
      throw error;
    } finally {
      await handle.close();
    }
    await sync(folder.fd);
    return { created: before === undefined };
  };

  const remove: Files["remove"] = async (path) => {
    const components = check(path);
    const name = components.pop();
    if (name === undefined) throw new FileRefused("not-a-file", "Expected a file, got the project's root folder");
    using folder = openFolder(real, components);
    const stats = statsIn(folder, name);
    if (stats === undefined) throw new FileRefused("missing", `Expected a file at "${path}", got nothing there`);
    if (!stats.isDirectory()) unlinkSync(folder.at(name));
    else
      try {
        rmdirSync(folder.at(name));
      } catch (error) {
        if (errorCode(error) !== "ENOTEMPTY") throw error;
        throw new FileRefused(
          "not-a-file",
          `Expected a file or an empty folder at "${path}", got a folder with entries`,
        );
      }
    await sync(folder.fd);
  };

  const stat: Files["stat"] = async (path) => {
    const components = componentsOf(inside(path));
    const name = components.pop();
    if (name === undefined) return { path: "", kind: "directory", bytes: 0 };
    try {
      using folder = openFolder(real, components);
      const stats = statsIn(folder, name);
      if (stats === undefined) return undefined;
      const kind = kindOf(stats);
      return { path: [...components, name].join("/"), kind, bytes: kind === "file" ? stats.size : 0 };
    } catch (error) {
      if (error instanceof FileRefused && (error.kind === "missing" || error.kind === "not-a-file")) return undefined;
      throw error;
    }
  };

  const list: Files["list"] = async (path, { depth = 1, offset = 0, limit = 1000 } = {}) => {
    const walk = { root: real, components: componentsOf(inside(path)), depth, offset, limit };
    await pace();
    const found = listFolder({ ...walk, most: mostNames });
    return doneBy(found === "too many" ? await inThread(listing, walk) : found);
  };

  const tidy: Files["tidy"] = async () => {
    await pace();
    const tidied = tidyFolder({ root: real, most: mostNames });
    doneBy(tidied === "too many" ? await inThread(tidying, { root: real }, { timeoutMs: tidyMs }) : tidied);
  };

  const isOpen = (path: string) => !isProtected(inside(path));
  return {
    root: real,
    inside,
    mayRead: isOpen,
    mayWrite: isOpen,
    read,
    write,
    remove,
    stat,
    async expectFolder(path) {
      openFolder(real, componentsOf(inside(path)))[Symbol.dispose]();
    },
    list,
    tidy,
  };
};

/** Milliseconds; a million entries take some seconds. */
const tidyMs = 10 * 60_000;
