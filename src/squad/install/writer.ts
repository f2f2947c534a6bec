import { constants, lstatSync, renameSync } from "node:fs";
import { type FileHandle, open, rm } from "node:fs/promises";
import { FileRefused, type Folder, openFolder } from "../../workspace/file/folder.ts";
import type { PackageFile } from "../package/package.ts";
import { previousOf } from "../catalog/scope.ts";

/**
 * The only code that writes packages. A package is written completely next to its place, synced, and renamed into it;
 * an upgrade first moves the old package aside, where readers find it until the new one is in place. So after a kill at
 * any moment either the old package or the new one is there, and the next write of the same id removes any leftovers.
 * The caller holds the id's lock.
 */

export interface Writer {
  /** Repairs what a killed write left. */
  settle(id: string): Promise<void>;
  put(id: string, files: readonly PackageFile[]): Promise<void>;
  remove(id: string): Promise<void>;
}

const stageOf = (id: string) => `.stage~${id}`;
const goneOf = (id: string) => `.gone~${id}`;

/** The ids that have leftovers, from the names in a folder of packages. */
export const leftovers = (names: readonly string[]): string[] => [
  ...new Set(names.flatMap((name) => /^\.(?:stage|gone|previous)~(.+)$/.exec(name)?.[1] ?? [])),
];

/** `place`: path of the folder of packages below `root`, which must be a real path. */
export const createWriter = (root: string, place: readonly string[]): Writer => {
  const settle: Writer["settle"] = async (id) => {
    // A refused write has not created the folder.
    using folder = openIfThere(root, place);
    if (folder === undefined) return;
    if (!isThere(folder, id) && isThere(folder, previousOf(id))) await move(folder, previousOf(id), id);
    for (const name of [previousOf(id), stageOf(id), goneOf(id)]) await erase(folder, name);
  };
  return {
    settle,

    async put(id, files) {
      await settle(id);
      try {
        await stage(root, [...place, stageOf(id)], files);
      } catch (error) {
        await settle(id).catch(() => undefined);
        throw error;
      }
      using folder = openFolder(root, place);
      await sync(folder);
      if (isThere(folder, id)) await move(folder, id, previousOf(id));
      await move(folder, stageOf(id), id);
      await erase(folder, previousOf(id));
      for (let depth = 0; depth < place.length; depth += 1) {
        using above = openFolder(root, place.slice(0, depth));
        await sync(above);
      }
    },

    async remove(id) {
      await settle(id);
      using folder = openFolder(root, place);
      await move(folder, id, goneOf(id));
      await erase(folder, goneOf(id));
    },
  };
};

const openIfThere = (root: string, place: readonly string[]): Folder | undefined => {
  try {
    return openFolder(root, place);
  } catch (error) {
    if (error instanceof FileRefused && error.kind === "missing") return undefined;
    throw error;
  }
};

const isThere = (folder: Folder, name: string): boolean =>
  lstatSync(folder.at(name), { throwIfNoEntry: false }) !== undefined;

const move = async (folder: Folder, from: string, to: string): Promise<void> => {
  renameSync(folder.at(from), folder.at(to));
  await sync(folder);
};

const erase = (folder: Folder, name: string): Promise<void> =>
  rm(folder.at(name), { recursive: true, force: true, maxRetries: 3 });

/** Writes and syncs the files and their folders. */
const stage = async (root: string, place: readonly string[], files: readonly PackageFile[]): Promise<void> => {
  const folders = new Set<string>([""]);
  for (const { path, bytes } of files) {
    const parts = path.split("/");
    const name = parts.pop() ?? "";
    for (let depth = 1; depth <= parts.length; depth += 1) folders.add(parts.slice(0, depth).join("/"));
    using folder = openFolder(root, [...place, ...parts], true);
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
    await using file: FileHandle = await open(folder.at(name), flags, 0o644);
    await file.writeFile(bytes);
    await file.sync();
  }
  // Deepest folders first: a folder's entries must be durable before the folder is.
  for (const path of [...folders].toSorted().toReversed()) {
    using folder = openFolder(root, [...place, ...path.split("/").filter((part) => part !== "")]);
    await sync(folder);
  }
};

const sync = async (folder: Folder): Promise<void> => {
  await using handle = await open(folder.self, constants.O_RDONLY | constants.O_DIRECTORY);
  await handle.sync();
};
