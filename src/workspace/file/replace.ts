import {
  constants,
  fchmodSync,
  fsync,
  lstatSync,
  readdirSync,
  renameSync,
  rmdirSync,
  symlinkSync,
  unlinkSync,
} from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { promisify } from "node:util";
import { componentsOf, FileRefused, tempPrefix } from "./files.ts";
import { openFolder } from "./folder.ts";
import { codeOf, sha256, stampOf } from "./inspect.ts";

/** Replaces or removes a file so that a kill leaves the old one or the new one, never half of either. */

const sync = promisify(fsync);

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
export const removeLeftover = (root: string, path: string, landing: string): void => {
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
export const replaceFile = async (
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
export const overwriteFile = async (root: string, path: string, bytes: Buffer): Promise<void> => {
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
export const removeFile = async (root: string, path: string, keep: string): Promise<void> => {
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
