import { chmodSync, closeSync, constants, fchmodSync, fstatSync, openSync } from "node:fs";
import { errorCode } from "../../error.ts";
import { pace } from "../../pace.ts";
import { childrenOf, type Folder, openFolder } from "./folder.ts";

/**
 * Folders that agents or their tools have closed, as Go's module cache and Bazel's outputs are: their owner may not
 * change what is in them. Root needs no permission.
 */

/** Opens a folder, which its owner may then read and change, with whatever permissions it was left. */
export const openUp = (parent: Folder, name: string): Folder => {
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
      // Of somebody else's.
    }
  return folder;
};

/** Linux's O_PATH: a descriptor of what may not be read, through which its mode is changed and no link's target. */
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

/** No deeper: each level holds a descriptor. */
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
      using child = openUp(folder, name);
      if (fstatSync(child.fd).dev === device) await visit(child, device, depth + 1);
    } catch {
      // It stays closed, and whoever needs it says so.
    }
  }
};
