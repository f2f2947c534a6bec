import { type Dir, lstatSync, opendirSync, readlinkSync, type Stats } from "node:fs";
import { readBounded } from "../file/bounded-read.ts";
import { decodePath, osPath } from "../file/path.ts";

/** Reads what is at a path, and again only when it may have changed. Follows no link in the last component. */

export type Seen = { stamp: string; mode: number } & (
  | { kind: "file"; bytes: Buffer | undefined }
  | { kind: "link"; target: string }
  | { kind: "folder" }
  | { kind: "other" }
);

/** `names`: decoded by `decodePath`. `crowded`: the folder has more names than were read. */
export type Listing = { stamp: string; names: string[]; crowded: boolean };

/** Bytes. No file that git takes orders from is larger; the content of a larger file is not compared. */
const longest = 1024 * 1024;

/** Most names read in one folder. */
const mostNames = 2000;

/** Names come as Buffers, which the types do not know of. */
const inBytes = { encoding: "buffer", bufferSize: 256 } as unknown as { bufferSize: number };

/**
 * Milliseconds. Clocks of file systems are coarse: a file that changed so recently may change again with the same
 * times.
 */
const clockMs = 50;

export const statsOf = (path: string): Stats | undefined => {
  try {
    return lstatSync(osPath(path), { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
};

const stampOf = (stats: Stats): string => {
  const stamp = `${stats.mode}.${stats.ino}.${stats.size}.${stats.mtimeMs}.${stats.ctimeMs}`;
  // A stamp that no later look can have.
  return Date.now() - stats.ctimeMs > clockMs ? stamp : `${stamp}.${Math.random()}`;
};

/** What is at a path; `known` if it has not changed. undefined: nothing is there, or it cannot be reached. */
export const seenAt = (path: string, known: Seen | undefined): Seen | undefined => {
  const stats = statsOf(path);
  if (stats === undefined) return undefined;
  const stamp = stampOf(stats);
  if (known?.stamp === stamp) return known;
  const { mode } = stats;
  try {
    if (stats.isFile()) return { stamp, mode, kind: "file", bytes: readBounded(path, longest, { nofollow: true }) };
    if (stats.isSymbolicLink())
      return { stamp, mode, kind: "link", target: decodePath(readlinkSync(osPath(path), { encoding: "buffer" })) };
  } catch {
    if (stats.isFile()) return { stamp, mode, kind: "file", bytes: undefined };
  }
  return { stamp, mode, kind: stats.isDirectory() ? "folder" : "other" };
};

/** The names in a folder that was just looked at; none if it cannot be read. */
export const listingOf = (folder: string, { stamp }: Seen, known: Listing | undefined): Listing => {
  if (known?.stamp === stamp) return known;
  const names: string[] = [];
  let open: Dir | undefined;
  try {
    open = opendirSync(osPath(folder), inBytes);
    for (let entry = open.readSync(); entry !== null; entry = open.readSync()) {
      if (names.length === mostNames) return { stamp, names, crowded: true };
      names.push(decodePath(entry.name as unknown as Buffer));
    }
  } catch {
  } finally {
    open?.closeSync();
  }
  return { stamp, names, crowded: false };
};

/** Whether two looks saw the same content, whatever happened in between. */
export const isSame = (old: Seen | undefined, now: Seen | undefined): boolean => {
  if (old === undefined || now === undefined) return old === now;
  if (old.kind !== now.kind) return false;
  if (old.kind === "link" || now.kind === "link")
    return old.kind === "link" && now.kind === "link" && old.target === now.target;
  if (old.kind !== "file" || now.kind !== "file") return true;
  if (old.stamp === now.stamp) return true;
  return old.bytes !== undefined && now.bytes !== undefined && old.mode === now.mode && old.bytes.equals(now.bytes);
};
