import type { Dirent } from "node:fs";
import { readdir, rm, rmdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import type { Blobs } from "../store.ts";
import { undefinedIfMissing, isHash, openFile, readBlob } from "./folder.ts";
import { blobThatMayMove, measured, piecesOf } from "./piece.ts";

/**
 * Moves blobs to the place where they are kept from now on, while the service runs. Until a blob has moved it is found
 * at its old place, from which it is removed only after the new place has stored its bytes. A move that was killed
 * continues at the next start.
 */

/** Where blobs were kept before. */
export type Source = {
  /** For the log: "the data folder". */
  name: string;
  isEmpty(): Promise<boolean>;
  /** The names of its blobs, one after another. */
  all(): AsyncGenerator<string>;
  get: Blobs["get"];
  read: Blobs["read"];
  remove(sha256: string): Promise<void>;
};

const againMs = 60_000;

/** Blobs moved between two lines of the log. */
const told = 1000;

const entriesOf = async (folder: string): Promise<Dirent[]> =>
  (await readdir(folder, { withFileTypes: true }).catch(undefinedIfMissing)) ?? [];

const shelvesOf = async (folder: string): Promise<string[]> =>
  (await entriesOf(folder)).flatMap((entry) =>
    !entry.isFile() && /^[0-9a-f]{2}$/.test(entry.name) ? [entry.name] : [],
  );

/** The folder's blobs and unfinished files, shelf by shelf. Removes shelves that are empty. */
async function* filesIn(folder: string): AsyncGenerator<string> {
  for (const shelf of await shelvesOf(folder)) {
    for (const { name } of await entriesOf(join(folder, shelf)))
      if (/^[0-9a-f]{64}(?:\.[0-9a-f]+\.tmp)?$/.test(name)) yield join(folder, shelf, name);
    await rmdir(join(folder, shelf)).catch(() => {});
  }
}

const isEmpty = async (folder: string): Promise<boolean> => {
  for await (const _ of filesIn(folder)) return false;
  return true;
};

/** Whether a folder has blobs. */
export const hasBlobs = async (folder: string): Promise<boolean> => !(await isEmpty(folder));

export const fromFolder = (folder: string): Source => {
  const pathOf = (sha256: string) => join(folder, sha256.slice(0, 2), sha256);
  return {
    name: "the data folder",
    isEmpty: () => isEmpty(folder),
    async *all() {
      for await (const path of filesIn(folder)) {
        // An older version did not finish writing this file, so nothing refers to it.
        if (path.endsWith(".tmp")) await rm(path, { force: true });
        else yield basename(path);
      }
    },
    get: async (sha256) => (isHash(sha256) ? readBlob(pathOf(sha256)) : undefined),
    read: async (sha256) => (isHash(sha256) ? openFile(pathOf(sha256)) : undefined),
    remove: (sha256) => rm(pathOf(sha256), { force: true }),
  };
};

export type Moving = AsyncDisposable & {
  blobs: Blobs;
  /** Blobs moved since the start. */
  count: () => number;
  /** Resolves to true once every blob that can be moved has moved, to false if the move was stopped before. */
  moved: Promise<boolean>;
};

/**
 * Starts to move the blobs of the source into `blobs`. Returns the blobs of both places, including those that have not
 * moved yet. `settled`: resolves when nothing is put into the source any more; undefined: nothing is put there now.
 */
export const movingFrom = async (
  source: Source,
  blobs: Blobs,
  log: Log,
  settled?: Promise<unknown>,
): Promise<Moving> => {
  const stop = new AbortController();
  let empty = settled === undefined && (await source.isEmpty());
  let count = 0;

  const move = async (): Promise<boolean> => {
    let damaged = 0;
    for await (const sha256 of source.all()) {
      if (stop.signal.aborted) return false;
      const pieces = piecesOf(source, sha256);
      const { ref, whole } = await measured(pieces);
      if (ref.sha256 !== sha256) {
        damaged += 1;
        log.warn({ sha256 }, `a blob of ${source.name} is damaged and was left there`);
        continue;
      }
      await (whole === undefined ? blobs.write(pieces, true) : blobs.put(whole, true));
      await source.remove(sha256);
      count += 1;
      if (count % told === 0) log.info({ moved: count }, `blobs are being moved from ${source.name}`);
    }
    empty = damaged === 0 && (await source.isEmpty());
    if (count > 0) log.info({ moved: count }, `the blobs of ${source.name} have been moved`);
    return true;
  };
  const moveAll = async (): Promise<boolean> => {
    if (empty) return true;
    await settled;
    while (!stop.signal.aborted) {
      try {
        return await move();
      } catch (error) {
        if (!stop.signal.aborted)
          log.warn({ error: messageOf(error) }, "blobs could not be moved; retrying in a minute");
        await pause(againMs, undefined, { signal: stop.signal, ref: false }).catch(() => {});
      }
    }
    return false;
  };
  const moved = moveAll();
  return {
    moved,
    count: () => count,
    blobs: {
      put: (bytes, exact) => blobs.put(bytes, exact),
      write: (pieces, exact) => blobs.write(pieces, exact),
      async get(sha256) {
        if (empty) return blobs.get(sha256);
        // Looked up a second time, because the blob may have moved in between.
        return (await blobs.get(sha256)) ?? (await source.get(sha256)) ?? blobs.get(sha256);
      },
      async read(sha256) {
        const there = await blobs.read(sha256);
        if (empty || there !== undefined) return there;
        const here = await source.read(sha256);
        return here === undefined ? blobs.read(sha256) : blobThatMayMove(here, () => blobs.read(sha256));
      },
      async drop(sha256) {
        if (!empty && (await source.read(sha256)) !== undefined) return "young";
        return blobs.drop(sha256);
      },
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await moved;
    },
  };
};
