import { randomBytes } from "node:crypto";
import { mkdir, open, readFile, rename, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { hashOf } from "../../hash.ts";
import type { BlobRef } from "../../protocol/text.ts";
import { type Space, unwatchedSpace } from "../disk/disk.ts";
import { DiskFull } from "../disk/full.ts";
import { unavailable, unreadable } from "../unavailable.ts";
import type { BlobRead, Blobs } from "../store.ts";
import { piecesOfFile, writeWith } from "./piece.ts";

/**
 * Blobs as files, `<folder>/ab/<sha256>`. A file gets its name only when all its bytes are on disk, so every file found
 * under a name is complete; a crash leaves at most a file in `<folder>/tmp`, which is never read and which the next
 * start removes.
 */
export const createBlobs = (folder: string, space: Space = unwatchedSpace): Blobs => {
  /** The last pending operation per file: operations on the same file run one after another. */
  const under = new Map<string, Promise<unknown>>();
  const inTurn = <T>(sha256: string, work: () => Promise<T>): Promise<T> => {
    const turn = (under.get(sha256) ?? Promise.resolve()).then(work, work).finally(() => {
      if (under.get(sha256) === turn) under.delete(sha256);
    });
    under.set(sha256, turn);
    return turn;
  };
  const pathOf = (sha256: string) => join(folder, sha256.slice(0, 2), sha256);

  const temporaries = join(folder, temporaryFolder);
  const openTemporary = async (path: string) =>
    open(path, "wx", 0o600).catch(async (error: NodeJS.ErrnoException) => {
      undefinedIfMissing(error);
      await mkdir(temporaries, { recursive: true, mode: 0o700 });
      return open(path, "wx", 0o600);
    });

  const write = async ({ sha256, bytes }: BlobRef, content: Uint8Array | AsyncIterable<Uint8Array>): Promise<void> => {
    const path = pathOf(sha256);
    const found = await stat(path).catch(undefinedIfMissing);
    if (found?.size === bytes) {
      // Refreshes the file's age, so that `drop` keeps it.
      if (Date.now() - found.mtimeMs > touchedMs) await utimes(path, new Date(), new Date());
      return;
    }
    if (space.isKept()) throw unavailable(new DiskFull());
    const shelf = join(folder, sha256.slice(0, 2));
    const temporary = join(temporaries, `${sha256}.${randomBytes(6).toString("hex")}`);
    try {
      if ((await mkdir(shelf, { recursive: true, mode: 0o700 })) !== undefined) await syncFolder(folder);
      const file = await openTemporary(temporary);
      try {
        await file.writeFile(content);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(temporary, path);
      await syncFolder(shelf);
    } catch (error) {
      await rm(temporary, { force: true });
      space.report(error);
      throw unavailable(error);
    }
  };

  const put = async (bytes: Uint8Array): Promise<BlobRef> => {
    const ref = { sha256: await hashOf(bytes), bytes: bytes.byteLength };
    await inTurn(ref.sha256, () => write(ref, bytes));
    return ref;
  };
  const writePieces = writeWith(put, (ref, pieces) => inTurn(ref.sha256, () => write(ref, pieces())));

  return {
    put,
    write: (pieces) =>
      writePieces(pieces).catch((error: unknown) => {
        throw unavailable(error);
      }),
    drop: (sha256) =>
      inTurn(sha256, async () => {
        const found = await stat(pathOf(sha256)).catch(undefinedIfMissing);
        if (found === undefined) return "absent";
        if (Date.now() - found.mtimeMs < youngMs) return "young";
        await rm(pathOf(sha256), { force: true });
        return "dropped";
      }),
    async get(sha256) {
      return isHash(sha256) ? readBlob(pathOf(sha256)) : undefined;
    },
    async read(sha256) {
      return isHash(sha256) ? openFile(pathOf(sha256)) : undefined;
    },
  };
};

/**
 * Holds files that are being written. It is inside the blobs' folder, since a rename gives a file its name at once only
 * within one file system.
 */
export const temporaryFolder = "tmp";

export const isHash = (name: string): boolean => /^[0-9a-f]{64}$/.test(name);

/**
 * Storing a blob again refreshes its age once it is older than `touchedMs`. `drop` keeps a file younger than `youngMs`,
 * because a commit may be about to name it.
 */
export const touchedMs = 10 * 60_000;
export const youngMs = 3 * touchedMs;

/**
 * For the `catch` of a read: undefined if the file does not exist. Throws any other error, since a file that cannot be
 * read now may still exist.
 */
export const undefinedIfMissing = (error: NodeJS.ErrnoException): undefined => {
  if (error.code !== "ENOENT") throw error;
};

/** undefined: there is no such file. Rejects with `store_unavailable`. */
export const readBlob = (path: string): Promise<Buffer | undefined> =>
  readFile(path)
    .catch(undefinedIfMissing)
    .catch((error: unknown) => {
      throw unreadable(error);
    });

/**
 * Opens the file of a blob to read it in pieces. undefined: there is no such file. Rejects with `store_unavailable`.
 */
export const openFile = async (path: string): Promise<BlobRead | undefined> => {
  try {
    const found = await stat(path).catch(undefinedIfMissing);
    return found && { bytes: found.size, pieces: piecesOfBlob(path, found.size) };
  } catch (error) {
    throw unreadable(error);
  }
};

async function* piecesOfBlob(path: string, bytes: number): AsyncGenerator<Buffer> {
  try {
    yield* piecesOfFile(path, bytes);
  } catch (error) {
    throw unreadable(error);
  }
}

/** A rename is durable only once its folder is synced. */
const syncFolder = async (path: string): Promise<void> => {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
};
