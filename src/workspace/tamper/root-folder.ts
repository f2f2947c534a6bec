import { closeSync, constants, fstatSync, openSync, readlinkSync, renameSync } from "node:fs";
import { dirname } from "node:path";
import type { Found, Tampered } from "./restore.ts";
import { type Seen, statsOf } from "./seen.ts";

/** Holds the folder of the repository open while commands run, so that it is found wherever a command moves it. */

/** `parent`: the inode of the folder that it was in. */
export interface HeldFolder extends Disposable {
  readonly fd: number;
  readonly parent: number | undefined;
}

/** Holds the folder open; undefined: there is none. */
export const holdFolder = (root: string): HeldFolder | undefined => {
  try {
    const fd = openSync(root, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    return { fd, parent: statsOf(dirname(root))?.ino, [Symbol.dispose]: () => closeSync(fd) };
  } catch {
    return undefined;
  }
};

const movedTo = (fd: number): string | undefined => {
  if (process.platform !== "linux") return undefined;
  try {
    const path = readlinkSync(`/proc/self/fd/${fd}`);
    const [open, there] = [fstatSync(fd), statsOf(path)];
    return there?.ino === open.ino && there.dev === open.dev ? path : undefined;
  } catch {
    return undefined;
  }
};

/**
 * Puts the folder back in its place if a command moved it, or put something else there. "gone": the folder was removed,
 * or its parent was moved or replaced.
 */
export const restoreRootFolder = (
  root: string,
  held: HeldFolder | undefined,
  putBack: (found: Found) => Tampered,
): Tampered[] | "gone" => {
  const there = statsOf(root);
  const moved = held === undefined ? undefined : movedTo(held.fd);
  const isFolder = there?.isDirectory() === true;
  const isHere = held !== undefined && statsOf(dirname(root))?.ino === held.parent;
  if (isFolder && (moved === undefined || moved === root || !isHere)) return [];
  if (!isHere || (there === undefined && moved === undefined)) return "gone";
  const kind = isFolder ? "folder" : "other";
  const now: Seen | undefined = there === undefined ? undefined : { stamp: "", mode: there.mode, kind };
  const aside = putBack({ path: root, gitDir: root, old: undefined, now, below: [] });
  try {
    if (moved !== undefined && statsOf(root) === undefined) {
      renameSync(moved, root);
      return [{ ...aside, change: now === undefined ? "removed" : "changed" }];
    }
  } catch {}
  return [{ ...aside, change: "changed", restored: false }];
};
