import { createHash, randomBytes } from "node:crypto";
import { mkdir, open, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, ServiceError } from "../errors.ts";
import type { Blobs } from "./store.ts";

/**
 * `<folder>/ab/<sha256>`. A file appears under its name only when all its bytes are on disk, so whatever is found
 * there is whole; a crash leaves at most a `.tmp` file that nobody reads.
 */
export const createBlobs = (folder: string): Blobs => {
  /** Puts of the same bytes that are under way. */
  const writing = new Map<string, Promise<void>>();
  const pathOf = (sha256: string) => join(folder, sha256.slice(0, 2), sha256);

  const write = async (sha256: string, bytes: Uint8Array): Promise<void> => {
    const path = pathOf(sha256);
    const found = await stat(path).catch(absent);
    if (found?.size === bytes.byteLength) return;
    const shelf = join(folder, sha256.slice(0, 2));
    const temporary = join(shelf, `${sha256}.${randomBytes(6).toString("hex")}.tmp`);
    try {
      if ((await mkdir(shelf, { recursive: true, mode: 0o700 })) !== undefined) await syncFolder(folder);
      const file = await open(temporary, "wx", 0o600);
      try {
        await file.writeFile(bytes);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(temporary, path);
      await syncFolder(shelf);
    } catch (error) {
      await rm(temporary, { force: true });
      throw new ServiceError("store_unavailable", `The store could not be written: ${messageOf(error)}.`, {
        cause: error,
      });
    }
  };

  return {
    async put(bytes) {
      const sha256 = createHash("sha256").update(bytes).digest("hex");
      const running = writing.get(sha256) ?? write(sha256, bytes).finally(() => writing.delete(sha256));
      writing.set(sha256, running);
      await running;
      return { sha256, bytes: bytes.byteLength };
    },
    async get(sha256) {
      return /^[0-9a-f]{64}$/.test(sha256) ? readFile(pathOf(sha256)).catch(absent) : undefined;
    },
  };
};

const absent = (error: NodeJS.ErrnoException): undefined => {
  if (error.code !== "ENOENT") throw error;
};

/** A rename is on disk only when its folder is. */
const syncFolder = async (path: string): Promise<void> => {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
};
