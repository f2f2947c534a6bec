import { lstatSync, type Stats, unlinkSync } from "node:fs";
import { errorCode } from "../../error.ts";
import type { Job } from "../../thread.ts";
import { type Child, childrenOf, FileRefused, type Folder, openFolder } from "./folder.ts";
import { tempNames, tempPrefix } from "./temp.ts";

/** Walks folders: at once where there are few names, as a job in a thread where there are many. */

export type Entry = { path: string; kind: "file" | "directory" | "link" | "other"; bytes: number };

/** `total`: the entries that were counted, those before `offset` included, up to `offset + limit`. */
export type Listing = { entries: Entry[]; total: number; truncated: boolean };

export type Walk = {
  root: string;
  components: readonly string[];
  depth: number;
  /** Entries left out at the beginning. */
  offset: number;
  limit: number;
  /** Gives up after this many names. */
  most?: number;
};

/** `refused`: the kind and message of a FileRefused, since an error loses its kind on its way out of a thread. */
export type Walked<T> = { done: T } | { refused: { kind: FileRefused["kind"]; message: string } } | "too many";

export const isGit = (name: string) => /^(\.git|git~\d+)[. ]*$/i.test(name);

export const kindOf = (stats: Stats): Entry["kind"] =>
  stats.isFile() ? "file" : stats.isDirectory() ? "directory" : stats.isSymbolicLink() ? "link" : "other";

class TooMany extends Error {}

/** Throws `TooMany` if the folder has more names than `left` allows. */
const namesIn = (folder: Folder, left: { names: number }): Child[] => {
  const names: Child[] = [];
  for (const child of childrenOf(folder)) {
    if ((left.names -= 1) < 0) throw new TooMany();
    names.push(child);
  }
  return names;
};

const walked = <T>(walk: () => T): Walked<T> => {
  try {
    return { done: walk() };
  } catch (error) {
    if (error instanceof TooMany) return "too many";
    if (error instanceof FileRefused) return { refused: { kind: error.kind, message: error.message } };
    throw error;
  }
};

/** Runs `visit`; ignores that its folder was removed, replaced or closed to us meanwhile. */
const ifThere = (visit: () => void): void => {
  try {
    visit();
  } catch (error) {
    if (!(error instanceof FileRefused) && errorCode(error) !== "EACCES" && errorCode(error) !== "ENOENT") throw error;
  }
};

/** Entries sorted by name, those of a folder right after it. `.git` and half-written files are left out. */
export const listFolder = ({ root, components, depth, offset, limit, most }: Walk): Walked<Listing> => {
  const left = { names: most ?? Number.POSITIVE_INFINITY };
  const entries: Entry[] = [];
  let total = 0;
  let truncated = false;
  const visit = (at: readonly string[], levels: number): void => {
    using folder = openFolder(root, at);
    const names = namesIn(folder, left).flatMap(({ name }) =>
      isGit(name) || name.startsWith(tempPrefix) ? [] : [name],
    );
    for (const name of names.sort()) {
      if (total >= offset + limit) {
        truncated = true;
        return;
      }
      const below = [...at, name];
      // A skipped entry need not be looked at, unless it may be a folder with more entries.
      if (total < offset && levels === 1) {
        total += 1;
        continue;
      }
      const stats = lstatSync(folder.at(name), { throwIfNoEntry: false });
      if (stats === undefined) continue;
      const kind = kindOf(stats);
      if (total >= offset) entries.push({ path: below.join("/"), kind, bytes: kind === "file" ? stats.size : 0 });
      total += 1;
      if (kind === "directory" && levels > 1) ifThere(() => visit(below, levels - 1));
    }
  };
  return walked(() => {
    visit(components, depth);
    return { entries, total, truncated };
  });
};

export const listing: Job<Walk, Walked<Listing>> = { name: "list", run: listFolder };

export type Tidying = { root: string; most?: number };

/** Levels. Half-written files below that are not found; they stay, and no commit takes them. */
const deepest = 200;

/** Removes half-written files of a killed service below the root. */
export const tidyFolder = ({ root, most }: Tidying): Walked<undefined> => {
  const left = { names: most ?? Number.POSITIVE_INFINITY };
  const queue: string[][] = [[]];
  const visit = (at: string[]): void => {
    using folder = openFolder(root, at);
    for (const { name, isFolder, isFile } of namesIn(folder, left)) {
      if (isFile && tempNames.test(name)) unlinkSync(folder.at(name));
      else if (isFolder && !isGit(name) && at.length < deepest) queue.push([...at, name]);
    }
  };
  return walked(() => {
    for (let at = queue.pop(); at !== undefined; at = queue.pop()) {
      const components = at;
      ifThere(() => visit(components));
    }
    return undefined;
  });
};

export const tidying: Job<Tidying, Walked<undefined>> = { name: "tidy", run: tidyFolder };
