import { createHash } from "node:crypto";
import {
  constants,
  fchmodSync,
  fstatSync,
  fsync,
  lstatSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  symlinkSync,
  unlinkSync,
} from "node:fs";
import { open } from "node:fs/promises";
import { promisify } from "node:util";
import { componentsOf, FileRefused, tempPrefix } from "./files.ts";
import { osPath } from "./path.ts";
import { openFolder } from "./walk.ts";

/** Paths of a landing as they stand on disk: bytes and git's modes, links as their targets. Confined like files.ts. */

export type Content = { mode: "100644" | "100755" | "120000"; bytes: Buffer };

export type OnDisk =
  | { kind: "present"; content: Content }
  | { kind: "absent" }
  | { kind: "folder" }
  /** A FIFO, socket or device. */
  | { kind: "special" }
  /** Something that is no folder stands where a folder above the path should be. */
  | { kind: "blocked"; by: string };

const sync = promisify(fsync);
const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code;

export const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

/** The id git gives these bytes as they are. */
export const blobID = (bytes: Uint8Array, like: string): string =>
  createHash(like.length === 40 ? "sha1" : "sha256")
    .update(`blob ${bytes.length}\0`)
    .update(bytes)
    .digest("hex");

export const look = async (root: string, path: string): Promise<OnDisk> => {
  const components = componentsOf(path);
  const name = components.pop() ?? "";
  try {
    using folder = openFolder(root, components);
    const stats = lstatSync(folder.at(name), { throwIfNoEntry: false });
    if (stats === undefined) return { kind: "absent" };
    if (stats.isDirectory()) return { kind: "folder" };
    if (stats.isSymbolicLink())
      return {
        kind: "present",
        content: { mode: "120000", bytes: readlinkSync(folder.at(name), { encoding: "buffer" }) },
      };
    if (!stats.isFile()) return { kind: "special" };
    await using handle = await open(folder.at(name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const opened = fstatSync(handle.fd);
    if (!opened.isFile()) return { kind: "special" };
    const mode = (opened.mode & 0o100) === 0 ? "100644" : "100755";
    return { kind: "present", content: { mode, bytes: await handle.readFile() } };
  } catch (error) {
    if (codeOf(error) === "ENOENT") return { kind: "absent" };
    if (!(error instanceof FileRefused)) throw error;
    return error.kind === "missing" ? { kind: "absent" } : { kind: "blocked", by: blockerOf(root, components) };
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

/**
 * Writes beside and renames, on disk before it answers. Folders are made; an empty folder in the way goes. `ready` is
 * asked in the last moment; false: nothing was changed.
 */
export const put = async (
  root: string,
  path: string,
  content: Content,
  landing: string,
  ready: () => Promise<boolean> = () => Promise.resolve(true),
): Promise<boolean> => {
  const components = componentsOf(path);
  const name = components.pop() ?? "";
  using folder = openFolder(root, components, true);
  const before = lstatSync(folder.at(name), { throwIfNoEntry: false });
  if (before?.isDirectory() === true) removeEmpty(root, path);
  const temp = folder.at(tempFor(landing, path));
  tryUnlink(temp);
  if (content.mode === "120000") symlinkSync(content.bytes, temp);
  else {
    const executable = content.mode === "100755";
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
    await using handle = await open(temp, flags, executable ? 0o777 : 0o666);
    await handle.writeFile(content.bytes);
    if (before?.isFile() === true) {
      const kept = before.mode & 0o777 & ~0o111;
      fchmodSync(handle.fd, executable ? kept | ((kept & 0o444) >> 2) : kept);
    }
    await handle.sync();
  }
  if (!(await ready())) {
    tryUnlink(temp);
    return false;
  }
  renameSync(temp, folder.at(name));
  await sync(folder.fd);
  return true;
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
