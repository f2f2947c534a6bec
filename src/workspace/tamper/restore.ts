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

/** Puts files back as they were, and keeps what was found, where git neither reads nor runs it. */

export type Tampered = {
  path: string;
  change: "added" | "changed" | "removed";
  /** Whether the file is again as it was before the command. */
  restored: boolean;
  /** Where what was found is now; null: there was nothing, or it was left in its place. */
  kept: string | null;
};

export type Found = {
  path: string;
  /** The Git directory that it belongs to. */
  gitDir: string;
  old: Seen | undefined;
  now: Seen | undefined;
  /** What the folder had that was looked at, where it has to be made anew. */
  below: readonly Node[];
};

/** A command may have taken away the right to write in the folder. */
const inFolder = (folder: string, act: () => void): void => {
  try {
    act();
  } catch (error) {
    if (errorCode(error) !== "EACCES") throw error;
    chmodSync(osPath(folder), 0o755);
    act();
  }
};

/** A name that nothing has: a command could know it, and be there first. */
const free = (path: string): string => {
  for (let count = 1; ; count += 1) {
    const candidate = count === 1 ? path : `${path}-${count}`;
    if (statsOf(candidate) === undefined) return candidate;
  }
};

/** Folders in which git reads no file of such a name. */
const quiet = ["", "hooks", "info", "objects/info"];

export const createRestore = (root: string, taskID: string) => {
  const mark = `.found-by-${taskID}`;

  /** Beside the file, or in the repository's own folder, where a folder or a link would be in use. */
  const keptAt = ({ path, gitDir, now }: Found): string => {
    if (path === root) return free(`${path}${mark}`);
    if (now?.kind === "file" && quiet.some((name) => dirname(path) === join(gitDir, name)))
      return free(`${path}${mark}`);
    const name = isWithin(root, path) ? relative(root, path).replaceAll("/", "-") : basename(path);
    return free(join(root, `${name.slice(-150)}${mark}`));
  };

  /** Never executable, so that nobody runs it by its name. */
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
        // By a rename: another command may have begun the file anew since it was set aside.
        const temp = free(`${path}${mark}.new`);
        writeFileSync(osPath(temp), old.bytes, { mode: old.mode & 0o777, flag: "wx" });
        chmodSync(osPath(temp), old.mode & 0o777);
        renameSync(osPath(temp), osPath(path));
      } else if (old.kind === "link") symlinkSync(osPath(old.target), osPath(path));
      else if (old.kind === "folder") mkdirSync(osPath(path), { mode: old.mode & 0o777 });
    });
    return old.kind === "link" || old.kind === "folder" || (old.kind === "file" && old.bytes !== undefined);
  };

  /** What nobody looked at goes back to where it was: samples of hooks. */
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
