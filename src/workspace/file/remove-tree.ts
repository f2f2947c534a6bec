import { fstatSync, lstatSync, realpathSync, renameSync, rmdirSync, unlinkSync } from "node:fs";
import { basename, dirname } from "node:path";
import { errorCode } from "../../error.ts";
import { inThread, type Job } from "../../thread.ts";
import { childrenOf, FileRefused, type Folder, openFolder } from "./folder.ts";
import { openWithPermission } from "./open-up.ts";
import { tempName } from "./temp.ts";

/**
 * Removes a tree whatever agents made of it: any depth, any number of entries, folders without permissions. Follows no
 * link and enters no other file system. The first few entries are removed at once, the rest in a thread; calling again
 * continues an interrupted removal.
 */

/**
 * Removes the file or tree at the path; resolves if there is nothing. Rejects if something could not be removed, and
 * with the signal's reason.
 */
export const removeTree = async (path: string, signal?: AbortSignal): Promise<void> => {
  if (lstatSync(path, { throwIfNoEntry: false }) === undefined) return;
  await removeBelow(realpathSync.native(dirname(path)), basename(path), signal);
};

/** Like `removeTree`, for a path below a folder; a component of the path that is a link is not followed. */
export const removeBelow = (root: string, path: string, signal?: AbortSignal): Promise<void> =>
  removeAt({ root, path, foldersOnly: false }, signal);

/** Removes a folder that holds nothing but empty folders; rejects when it holds more. */
export const removeEmptyFolder = (root: string, path: string): Promise<void> =>
  removeAt({ root, path, foldersOnly: true });

const removeAt = async (place: Pick<Part, "root" | "path" | "foldersOnly">, signal?: AbortSignal): Promise<void> => {
  if (removeSome({ ...place, most: mostAtOnce, ms: atOnceMs, largest: largestAtOnce })) return;
  const turn = { ...place, most: mostInTurn, ms: turnMs };
  while (!(await inThread(removal, turn, { signal, timeoutMs: 60 * turnMs })));
};

/** Limits for the thread that serves requests, which must not be blocked for longer. */
const mostAtOnce = 200;
const atOnceMs = 5;
/** Bytes; freeing a larger file takes a while. */
const largestAtOnce = 1024 * 1024;
/** Limits for one turn in a thread, before another job gets its turn. */
const mostInTurn = 50_000;
const turnMs = 2000;

type Part = { root: string; path: string; foldersOnly: boolean; most: number; ms: number; largest?: number };

/** Folders held open at a time; deeper ones are first moved up to the top folder. */
const mostOpen = 32;

type Work = {
  top: Folder;
  device: number;
  /** The path from the root to the current entry, for errors. */
  at: string[];
  /** Whether this turn may remove another entry; counts the entry. */
  goesOn: () => boolean;
  largest: number;
  foldersOnly: boolean;
  failure: Error | undefined;
};

/** `more`: the limits of this turn are used up, and there is more to remove. */
type Outcome = "gone" | "kept" | "more";

/** Removes a part of the tree, within the limits. false: there is more. Throws if something could not be removed. */
const removeSome = ({ root, path, foldersOnly, most, ms, largest = Number.POSITIVE_INFINITY }: Part): boolean => {
  const components = path.split("/");
  const name = components.pop() ?? "";
  let above: Folder;
  try {
    above = openFolder(root, components);
  } catch (error) {
    if (error instanceof FileRefused && error.kind === "missing") return true;
    throw error;
  }
  using parent = above;
  const stats = lstatSync(parent.at(name), { throwIfNoEntry: false });
  if (stats === undefined) return true;
  const until = performance.now() + ms;
  let left = most;
  const goesOn = () => (left -= 1) >= 0 && performance.now() < until;
  if (!stats.isDirectory()) {
    if (stats.size > largest) return false;
    unlinkSync(parent.at(name));
    return true;
  }
  {
    using top = openWithPermission(parent, name);
    const { dev: device } = fstatSync(top.fd);
    const work: Work = { top, device, at: [path], goesOn, largest, foldersOnly, failure: undefined };
    if (empty(work, top, 0) === "more") return false;
    if (work.failure !== undefined) throw work.failure;
  }
  rmdirSync(parent.at(name));
  return true;
};

export const removal: Job<Part, boolean> = { name: "remove", run: removeSome };

/** Empties a folder. Passes over it until a pass removes nothing, since a change may hide entries from a pass. */
const empty = (work: Work, folder: Folder, depth: number): Outcome => {
  for (;;) {
    let removed = 0;
    let kept = 0;
    for (const { name, isFolder } of childrenOf(folder)) {
      if (!work.goesOn()) return "more";
      work.at.push(name);
      const outcome = removeEntry(work, folder, name, isFolder, depth);
      work.at.pop();
      if (outcome === "more") return "more";
      if (outcome === "gone") removed += 1;
      else kept += 1;
    }
    if (removed === 0) return kept === 0 ? "gone" : "kept";
  }
};

const removeEntry = (work: Work, folder: Folder, name: string, isFolder: boolean, depth: number): Outcome => {
  try {
    if (isFolder) return removeFolder(work, folder, name, depth);
    if (work.foldersOnly) throw Object.assign(new Error("not empty"), { code: "ENOTEMPTY" });
    if (work.largest !== Number.POSITIVE_INFINITY) {
      const stats = lstatSync(folder.at(name), { throwIfNoEntry: false });
      if (stats !== undefined && stats.size > work.largest) return "more";
    }
    unlinkSync(folder.at(name));
    return "gone";
  } catch (error) {
    const code = errorCode(error);
    if (code === "ENOENT") return "gone";
    work.failure ??= new Error(`${work.at.join("/").slice(0, 1000)} could not be removed (${code ?? String(error)})`);
    return "kept";
  }
};

const removeFolder = (work: Work, folder: Folder, name: string, depth: number): Outcome => {
  if (depth >= mostOpen) {
    // The next pass over the top folder removes it there.
    renameSync(folder.at(name), work.top.at(tempName()));
    return "gone";
  }
  {
    using child = openWithPermission(folder, name);
    if (fstatSync(child.fd).dev !== work.device) throw Object.assign(new Error("mounted"), { code: "EBUSY" });
    const outcome = empty(work, child, depth + 1);
    if (outcome !== "gone") return outcome;
  }
  rmdirSync(folder.at(name));
  return "gone";
};
