import { chmodSync, closeSync, constants, fchmodSync, fstatSync, openSync } from "node:fs";
import { errorCode } from "../../error.ts";
import { pace } from "../../pace.ts";
import { childrenOf, type Folder, openFolder } from "./folder.ts";

/**
 * Opens folders that agents or their tools have closed, such as Go's module cache and Bazel's outputs, whose owner may
 * not change what is in them. Root needs no permission.
 */

/** Opens a folder whatever its permissions, and lets its owner read and change it. */
export const openWithPermission = (parent: Folder, name: string): Folder => {
  let folder: Folder;
  try {
    folder = parent.open(name);
  } catch (error) {
    if (errorCode(error) !== "EACCES") throw error;
    permit(parent, name);
    folder = parent.open(name);
  }
  const { mode } = fstatSync(folder.fd);
  if ((mode & 0o700) !== 0o700)
    try {
      fchmodSync(folder.fd, (mode & 0o777) | 0o700);
    } catch {
      // The folder belongs to another user.
    }
  return folder;
};

/**
 * Linux's O_PATH: opens a folder that may not be read; changing the mode through this descriptor cannot change the
 * target of a link.
 */
const pathOnly = 0o10000000;

const permit = (parent: Folder, name: string): void => {
  if (process.platform !== "linux") return chmodSync(parent.at(name), 0o700);
  const fd = openSync(parent.at(name), pathOnly | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    chmodSync(`/proc/self/fd/${fd}`, 0o700);
  } finally {
    closeSync(fd);
  }
};

/** Levels below the top; each of them holds a descriptor open. */
const mostDepth = 100;

/** Opens up all folders below this one, following no link and entering no other file system. */
export const openUpAll = async (tree: string): Promise<void> => {
  using top = openFolder(tree, []);
  await visit(top, fstatSync(top.fd).dev, 0);
};

const visit = async (folder: Folder, device: number, depth: number): Promise<void> => {
  if (depth > mostDepth) return;
  for (const { name, isFolder } of childrenOf(folder)) {
    await pace();
    if (!isFolder) continue;
    try {
      using child = openWithPermission(folder, name);
      if (fstatSync(child.fd).dev === device) await visit(child, device, depth + 1);
    } catch {
      // The folder stays closed; an operation that needs it fails and says so.
    }
  }
};
