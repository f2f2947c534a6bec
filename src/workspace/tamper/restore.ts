import {
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { errorCode } from "../../error.ts";
import { isWithin } from "../../process/sandbox/system-mount.ts";
import { osPath } from "../file/path.ts";
import { type Seen, statsOf } from "./seen.ts";
import type { Node } from "./node.ts";

/** Restores files as they were, and keeps the changed versions where git neither reads nor runs them. */

export type Tampered = {
  path: string;
  change: "added" | "changed" | "removed";
  /** Whether the file is again as it was before the command. */
  restored: boolean;
  /** Where the changed version is now; null: there was none, or it was left in place. */
  kept: string | null;
};

export type Found = {
  path: string;
  /** The Git directory that the path belongs to. */
  gitDir: string;
  old: Seen | undefined;
  now: Seen | undefined;
  /** The watched content of a folder that has to be made again. */
  below: readonly Node[];
};

/** Changes a folder; a command may have removed the right to write in it, which is then restored. */
const inFolder = (folder: string, act: () => void): void => {
  try {
    act();
  } catch (error) {
    if (errorCode(error) !== "EACCES") throw error;
    chmodSync(osPath(folder), 0o755);
    act();
  }
};

/** An unused name: a command could guess one, and take it first. */
const free = (path: string): string => {
  for (let count = 1; ; count += 1) {
    const candidate = count === 1 ? path : `${path}-${count}`;
    if (statsOf(candidate) === undefined) return candidate;
  }
};

/** Folders in which git reads no file with such a name. */
const quiet = ["", "hooks", "info", "objects/info"];

export const createRestore = (root: string, taskID: string) => {
  const mark = `.found-by-${taskID}`;

  /**
   * The path for a changed version: beside the file, or in the repository's own folder if git would still use a folder
   * or link there.
   */
  const keptAt = ({ path, gitDir, now }: Found): string => {
    if (path === root) return free(`${path}${mark}`);
    if (now?.kind === "file" && quiet.some((name) => dirname(path) === join(gitDir, name)))
      return free(`${path}${mark}`);
    const name = isWithin(root, path) ? relative(root, path).replaceAll("/", "-") : basename(path);
    return free(join(root, `${name.slice(-150)}${mark}`));
  };

  /** Moves the changed version aside; a file is no longer executable, so that nobody runs it by its name. */
  const setAside = (found: Found): string => {
    let kept = keptAt(found);
    inFolder(dirname(found.path), () => {
      try {
        renameSync(osPath(found.path), osPath(kept));
      } catch (error) {
        if (errorCode(error) !== "EXDEV") throw error;
        kept = free(`${found.path}${mark}`);
        renameSync(osPath(found.path), osPath(kept));
      }
    });
    if (found.now?.kind === "file") {
      const fd = openSync(osPath(kept), constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
      try {
        fchmodSync(fd, 0o600);
      } finally {
        closeSync(fd);
      }
    }
    return kept;
  };

  const write = (path: string, old: Seen): boolean => {
    const folder = dirname(path);
    mkdirSync(osPath(folder), { recursive: true });
    inFolder(folder, () => {
      if (old.kind === "file" && old.bytes !== undefined) {
        // Written by a rename: another command may have made the file again since it was set aside.
        const temp = free(`${path}${mark}.new`);
        writeFileSync(osPath(temp), old.bytes, { mode: old.mode & 0o777, flag: "wx" });
        chmodSync(osPath(temp), old.mode & 0o777);
        renameSync(osPath(temp), osPath(path));
      } else if (old.kind === "link") symlinkSync(osPath(old.target), osPath(path));
      else if (old.kind === "folder") mkdirSync(osPath(path), { mode: old.mode & 0o777 });
    });
    return old.kind === "link" || old.kind === "folder" || (old.kind === "file" && old.bytes !== undefined);
  };

  /** Moves unwatched files back to their place: samples of hooks. */
  const moveBack = (from: string, to: string, watched: ReadonlySet<string>): void => {
    for (const name of readdirSync(osPath(from)))
      if (name.endsWith(".sample") && !watched.has(join(to, name)) && lstatSync(join(from, name)).isFile())
        renameSync(join(from, name), join(to, name));
  };

  return (found: Found): Tampered => {
    const { path, old, now, below } = found;
    const change = old === undefined ? "added" : now === undefined ? "removed" : "changed";
    let kept: string | null = null;
    try {
      if (now !== undefined) kept = setAside(found);
      let restored = old === undefined || write(path, old);
      for (const node of below) restored = write(node.path, node.seen) && restored;
      if (kept !== null && old?.kind === "folder" && now?.kind === "folder")
        moveBack(kept, path, new Set(below.map((node) => node.path)));
      return { path, change, restored, kept };
    } catch {
      return { path, change, restored: false, kept };
    }
  };
};
