import { createHash, type Hash } from "node:crypto";
import {
  constants,
  fchmodSync,
  fstatSync,
  fsync,
  type BigIntStats,
  lstatSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  symlinkSync,
  unlinkSync,
} from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { promisify } from "node:util";
import { componentsOf, FileRefused, tempPrefix } from "./files.ts";
import { osPath } from "./path.ts";
import { openFolder } from "./folder.ts";

/** Paths of a landing as they stand on disk: bytes and git's modes, links as their targets. Confined like files.ts. */

export type Mode = "100644" | "100755" | "120000";
export type Content = { mode: Mode; bytes: Buffer };

/** What a file is, without its bytes: it may be large. `object` is the id that git gives the bytes as they are. */
export type Sight = { mode: Mode; bytes: number; sha256: string; object: string; stamp: string };

export type OnDisk<T = Content> =
  | { kind: "present"; content: T }
  | { kind: "absent" }
  | { kind: "folder" }
  /** A FIFO, socket or device. */
  | { kind: "special" }
  /** Something that is no folder stands where a folder above the path should be. */
  | { kind: "blocked"; by: string };

const sync = promisify(fsync);
const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code;

export const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

const objectHash = (bytes: number, like: string): Hash =>
  createHash(like.length === 40 ? "sha1" : "sha256").update(`blob ${bytes}\0`);

/** Changes with every write to a file, and when another takes its place. */
const stampOf = (stats: BigIntStats | undefined): string =>
  stats === undefined ? "-" : `${stats.ino}.${stats.size}.${stats.mtimeNs}.${stats.ctimeNs}`;

type Visit<T> = {
  link: (target: Buffer, stamp: string) => T;
  file: (handle: FileHandle, mode: Mode, bytes: number, stamp: string) => Promise<T>;
};

const visit = async <T>(root: string, path: string, { link, file }: Visit<T>): Promise<OnDisk<T>> => {
  const components = componentsOf(path);
  const name = components.pop() ?? "";
  try {
    using folder = openFolder(root, components);
    const stats = lstatSync(folder.at(name), { throwIfNoEntry: false, bigint: true });
    if (stats === undefined) return { kind: "absent" };
    if (stats.isDirectory()) return { kind: "folder" };
    if (stats.isSymbolicLink()) {
      const target = readlinkSync(folder.at(name), { encoding: "buffer" });
      return { kind: "present", content: link(target, stampOf(stats)) };
    }
    if (!stats.isFile()) return { kind: "special" };
    await using handle = await open(folder.at(name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const opened = fstatSync(handle.fd, { bigint: true });
    if (!opened.isFile()) return { kind: "special" };
    const mode = (Number(opened.mode) & 0o100) === 0 ? "100644" : "100755";
    return { kind: "present", content: await file(handle, mode, Number(opened.size), stampOf(opened)) };
  } catch (error) {
    if (codeOf(error) === "ENOENT") return { kind: "absent" };
    if (!(error instanceof FileRefused)) throw error;
    return error.kind === "missing" ? { kind: "absent" } : { kind: "blocked", by: blockerOf(root, components) };
  }
};

/** Files that are larger than `most` count as special. */
export const look = async (root: string, path: string, most = Number.POSITIVE_INFINITY): Promise<OnDisk> => {
  const found = await visit<Content | undefined>(root, path, {
    link: (bytes) => ({ mode: "120000", bytes }),
    file: async (handle, mode, bytes) => (bytes > most ? undefined : { mode, bytes: await handle.readFile() }),
  });
  if (found.kind !== "present") return found;
  return found.content === undefined ? { kind: "special" } : { kind: "present", content: found.content };
};

/** `like`: an id of the repository, whose kind of hash is taken; without one `object` is empty. */
export const see = (root: string, path: string, like?: string): Promise<OnDisk<Sight>> =>
  visit<Sight>(root, path, {
    link: (target, stamp) => ({
      stamp,
      mode: "120000",
      bytes: target.length,
      sha256: sha256(target),
      object: like === undefined ? "" : objectHash(target.length, like).update(target).digest("hex"),
    }),
    async file(handle, mode, bytes, stamp) {
      const hash = createHash("sha256");
      const object = like === undefined ? undefined : objectHash(bytes, like);
      await eachPart(handle, bytes, (part) => {
        hash.update(part);
        object?.update(part);
      });
      return { stamp, mode, bytes, sha256: hash.digest("hex"), object: object?.digest("hex") ?? "" };
    },
  });

/** The bytes of a file in parts, which are only good until the next one; false: no file stands there. */
export const readParts = async (
  root: string,
  path: string,
  onPart: (part: Buffer) => Promise<void>,
): Promise<boolean> => {
  const found = await visit<boolean>(root, path, {
    link: () => false,
    file: async (handle, _, bytes) => {
      await eachPart(handle, bytes, onPart);
      return true;
    },
  });
  return found.kind === "present" && found.content;
};

const partBytes = 1024 * 1024;

/** Read to the end, wherever that is by then. */
const eachPart = async (handle: FileHandle, bytes: number, onPart: (part: Buffer) => unknown): Promise<void> => {
  const buffer = Buffer.allocUnsafe(Math.min(bytes + 1, partBytes));
  for (;;) {
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, null);
    if (bytesRead === 0) return;
    await onPart(buffer.subarray(0, bytesRead));
  }
};

const blockerOf = (root: string, components: readonly string[]): string => {
  for (let count = 1; count <= components.length; count += 1) {
    const path = components.slice(0, count).join("/");
    if (lstatSync(osPath(`${root}/${path}`), { throwIfNoEntry: false })?.isDirectory() !== true) return path;
  }
  return components.join("/");
};

/** Every path below a folder that is no folder itself. */
export const below = (root: string, path: string): string[] => {
  using folder = openFolder(root, componentsOf(path));
  return readdirSync(folder.self).flatMap((name) => {
    const child = `${path}/${name}`;
    const isFolder = lstatSync(folder.at(name), { throwIfNoEntry: false })?.isDirectory() ?? false;
    return isFolder && name !== ".git" ? below(root, child) : [child];
  });
};

/** The same name for the same landing and path: what a kill left behind is overwritten, or taken away, by the next. */
const tempFor = (landing: string, path: string) =>
  `${tempPrefix}${sha256(Buffer.from(`${landing}\0${path}`)).slice(0, 24)}`;

const tryUnlink = (path: string | Buffer) => {
  try {
    unlinkSync(path);
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
  }
};

/** Takes away what a killed landing may have left beside the path. */
export const sweep = (root: string, path: string, landing: string): void => {
  const components = componentsOf(path);
  components.pop();
  try {
    using folder = openFolder(root, components);
    tryUnlink(folder.at(tempFor(landing, path)));
  } catch (error) {
    if (!(error instanceof FileRefused)) throw error;
  }
};

/** `fill` writes the bytes, in parts; what it throws leaves everything as it was. */
export type Source = { mode: "120000"; bytes: Buffer } | { mode: string; fill: (handle: FileHandle) => Promise<void> };

/**
 * Writes beside and renames, on disk before it answers. Folders are made; an empty folder in the way goes. `ready` is
 * asked in the last moment for the stamp of what may be replaced ("-": of nothing). False: nothing was changed.
 */
export const put = async (
  root: string,
  path: string,
  source: Source,
  landing: string,
  ready?: () => Promise<string | undefined>,
): Promise<boolean> => {
  const components = componentsOf(path);
  const name = components.pop() ?? "";
  using folder = openFolder(root, components, true);
  const before = lstatSync(folder.at(name), { throwIfNoEntry: false });
  if (before?.isDirectory() === true) removeEmpty(root, path);
  const temp = folder.at(tempFor(landing, path));
  tryUnlink(temp);
  if ("bytes" in source) symlinkSync(source.bytes, temp);
  else {
    const executable = source.mode === "100755";
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
    await using handle = await open(temp, flags, executable ? 0o777 : 0o666);
    try {
      await source.fill(handle);
    } catch (error) {
      tryUnlink(temp);
      throw error;
    }
    if (before?.isFile() === true) {
      const kept = before.mode & 0o777 & ~0o111;
      fchmodSync(handle.fd, executable ? kept | ((kept & 0o444) >> 2) : kept);
    }
    await handle.sync();
  }
  const allowed = await ready?.();
  // No await from here to the rename: who saves the file in this process or another has microseconds for it.
  const there = lstatSync(folder.at(name), { throwIfNoEntry: false, bigint: true });
  if (ready !== undefined && allowed !== stampOf(there)) {
    tryUnlink(temp);
    return false;
  }
  renameSync(temp, folder.at(name));
  await sync(folder.fd);
  return true;
};

/** Writes into a file that is there. A kill leaves half of it, and nothing beside it: only where all is made anew after one. */
export const overwrite = async (root: string, path: string, bytes: Buffer): Promise<void> => {
  const components = componentsOf(path);
  const name = components.pop() ?? "";
  using folder = openFolder(root, components);
  await using handle = await open(folder.at(name), constants.O_WRONLY | constants.O_TRUNC | constants.O_NOFOLLOW);
  await handle.writeFile(bytes);
};

/** Removes a folder that holds nothing but empty folders; git knows none of them. */
const removeEmpty = (root: string, path: string): void => {
  const components = componentsOf(path);
  {
    using folder = openFolder(root, components);
    for (const name of readdirSync(folder.self)) removeEmpty(root, `${path}/${name}`);
  }
  const name = components.pop() ?? "";
  using parent = openFolder(root, components);
  rmdirSync(parent.at(name));
};

/** Removes a file or link, and the folders that it leaves empty, but none at or above `keep`. */
export const take = async (root: string, path: string, keep: string): Promise<void> => {
  const components = componentsOf(path);
  const name = components.pop() ?? "";
  {
    using folder = openFolder(root, components);
    tryUnlink(folder.at(name));
    await sync(folder.fd);
  }
  while (components.length > 0 && !`${keep}/`.startsWith(`${components.join("/")}/`)) {
    const last = components.pop() ?? "";
    using folder = openFolder(root, components);
    try {
      rmdirSync(folder.at(last));
    } catch {
      return;
    }
  }
};
