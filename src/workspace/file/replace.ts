import {
  constants,
  fchmodSync,
  fstatSync,
  fsync,
  linkSync,
  lstatSync,
  renameSync,
  rmdirSync,
  symlinkSync,
  unlinkSync,
} from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { promisify } from "node:util";
import { errorCode } from "../../error.ts";
import { componentsOf, FileRefused, tempPrefix } from "./files.ts";
import { openFolder } from "./folder.ts";
import { sha256, stampOf } from "./inspect.ts";
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
    if (errorCode(error) !== "ENOENT") throw error;
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
 * the path. `ready` is called last and resolves to the stamp of the file that may be replaced ("-": no file). false:
 * another file is there, and nothing was changed.
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
 * Moves a file from elsewhere on the file system to the path, in one rename. Creates missing folders; removes an empty
 * folder at the path. `aside`: a second name (a hard link) that the replaced file gets first. The caller syncs the
 * folder. false: the file at the path does not have the stamp ("-": no file), or something is in the way; nothing was
 * changed.
 */
export const moveIn = async (
  root: string,
  path: string,
  file: string,
  { stamp, aside }: { stamp: string; aside?: string },
): Promise<boolean> => {
  const components = componentsOf(path);
  const name = components.pop() ?? "";
  try {
    using folder = openFolder(root, components, true);
    if (lstatSync(folder.at(name), { throwIfNoEntry: false })?.isDirectory() === true)
      await removeEmptyFolder(root, path);
    // No await from here to the rename, as in `replaceFile`.
    const there = lstatSync(folder.at(name), { throwIfNoEntry: false, bigint: true });
    if (stampOf(there) !== stamp) return false;
    if (aside !== undefined) keepAside(folder.at(name), aside);
    renameSync(file, folder.at(name));
    return true;
  } catch (error) {
    if (error instanceof FileRefused) return false;
    throw error;
  }
};

/** Gives the file a second name; does nothing where the file system cannot. */
const keepAside = (file: string | Buffer, aside: string): void => {
  tryUnlink(aside);
  try {
    linkSync(file, aside);
  } catch (error) {
    if (!["ENOENT", "EPERM", "EXDEV", "EMLINK", "ENOTSUP", "EOPNOTSUPP"].includes(errorCode(error) ?? "")) throw error;
  }
};

/**
 * What a new file at a path inherits: the mode of the file that is there, without its execute bits, and the folder's
 * group where its set-group-ID passes that on.
 */
export const rightsAt = (root: string, path: string): { mode?: number; group?: number } => {
  const components = componentsOf(path);
  const name = components.pop() ?? "";
  try {
    using folder = openFolder(root, components);
    const { mode, gid } = fstatSync(folder.fd);
    const before = lstatSync(folder.at(name), { throwIfNoEntry: false });
    return {
      ...(before?.isFile() === true ? { mode: before.mode & 0o777 & ~0o111 } : {}),
      ...((mode & 0o2000) === 0 ? {} : { group: gid }),
    };
  } catch (error) {
    if (error instanceof FileRefused) return {};
    throw error;
  }
};

/** The stamp of the file at a path; "-": there is nothing, or a folder, which git does not track. */
export const stampAt = (root: string, path: string): string => {
  const components = componentsOf(path);
  const name = components.pop() ?? "";
  try {
    using folder = openFolder(root, components);
    const there = lstatSync(folder.at(name), { throwIfNoEntry: false, bigint: true });
    return stampOf(there?.isDirectory() === true ? undefined : there);
  } catch (error) {
    if (error instanceof FileRefused) return "-";
    throw error;
  }
};

/** Makes renames in the folders of these paths durable. Folders that are gone need no sync. */
export const syncFolders = async (root: string, paths: readonly string[]): Promise<void> => {
  for (const path of new Set(paths.map((path) => path.split("/").slice(0, -1).join("/"))))
    try {
      using folder = openFolder(root, path === "" ? [] : path.split("/"));
      await sync(folder.fd);
    } catch (error) {
      if (!(error instanceof FileRefused)) throw error;
    }
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

/**
 * Removes a file or link, and the folders that become empty, but not `keep` or its parents. `only`: the stamp and the
 * second name, as in `moveIn`; then the caller syncs the folder, too. false: another file is there, and nothing was
 * changed.
 */
export const removeFile = async (
  root: string,
  path: string,
  keep: string,
  only?: { stamp: string; aside?: string },
): Promise<boolean> => {
  const components = componentsOf(path);
  const name = components.pop() ?? "";
  {
    using folder = openFolder(root, components);
    const there = only && lstatSync(folder.at(name), { throwIfNoEntry: false, bigint: true });
    if (only !== undefined && stampOf(there) !== only.stamp) return false;
    if (only?.aside !== undefined) keepAside(folder.at(name), only.aside);
    tryUnlink(folder.at(name));
    if (only === undefined) await sync(folder.fd);
  }
  while (components.length > 0 && !`${keep}/`.startsWith(`${components.join("/")}/`)) {
    const last = components.pop() ?? "";
    using folder = openFolder(root, components);
    try {
      rmdirSync(folder.at(last));
    } catch {
      break;
    }
  }
  return true;
};
