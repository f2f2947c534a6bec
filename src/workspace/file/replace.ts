import { constants, fchmodSync, fsync, lstatSync, renameSync, rmdirSync, symlinkSync, unlinkSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { promisify } from "node:util";
import { componentsOf, FileRefused, tempPrefix } from "./files.ts";
import { openFolder } from "./folder.ts";
import { codeOf, sha256, stampOf } from "./inspect.ts";
import { removeEmptyFolder } from "./remove-tree.ts";

/** Replaces or removes files crash-safely: after a kill there is the old file or the new one, never half of either. */

const sync = promisify(fsync);

/** Deterministic for a landing and path, so that the next attempt overwrites or removes what a kill left. */
const tempFor = (landing: string, path: string) =>
  `${tempPrefix}${sha256(Buffer.from(`${landing}\0${path}`)).slice(0, 24)}`;

const tryUnlink = (path: string | Buffer) => {
  try {
    unlinkSync(path);
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
  }
};

/** Removes the temporary file that a killed landing may have left next to the path. */
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

/** The content to write. `fill` writes it in parts; if it throws, nothing is changed. */
export type Source = { mode: "120000"; bytes: Buffer } | { mode: string; fill: (handle: FileHandle) => Promise<void> };

/**
 * Writes a temporary file and renames it; durable once resolved. Creates missing folders; removes an empty folder at
 * the path. `ready` is called last and resolves to the stamp of the file that may be replaced ("-": of none). false:
 * nothing was changed.
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
  if (before?.isDirectory() === true) await removeEmptyFolder(root, path);
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
  // No await from here to the rename, so that a concurrent save can only slip in within microseconds.
  const there = lstatSync(folder.at(name), { throwIfNoEntry: false, bigint: true });
  if (ready !== undefined && allowed !== stampOf(there)) {
    tryUnlink(temp);
    return false;
  }
  renameSync(temp, folder.at(name));
  await sync(folder.fd);
  return true;
};

/**
 * Overwrites an existing file in place. A kill can leave half of it but no temporary file: use it only where everything
 * is created again after a crash.
 */
export const overwriteFile = async (root: string, path: string, bytes: Buffer): Promise<void> => {
  const components = componentsOf(path);
  const name = components.pop() ?? "";
  using folder = openFolder(root, components);
  await using handle = await open(folder.at(name), constants.O_WRONLY | constants.O_TRUNC | constants.O_NOFOLLOW);
  await handle.writeFile(bytes);
};

/** Removes a file or link, and the folders that become empty, but not `keep` or its parents. */
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
