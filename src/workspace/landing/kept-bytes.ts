import { mkdirSync } from "node:fs";
import { open, readFile } from "node:fs/promises";
import { join } from "node:path";
import { hashOf } from "../../hash.ts";
import { codeOf } from "../file/inspect.ts";

/** Keeps the user's bytes and the merged ones, named by SHA-256, until the landing is done. */

/** Returns the SHA-256. The bytes are durable by then. */
export const keepBytes = async (folder: string, bytes: Buffer): Promise<string> => {
  const hash = await hashOf(bytes);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  await using file = await open(join(folder, hash), "w", 0o600);
  await file.writeFile(bytes);
  await file.sync();
  return hash;
};

export const keptBytes = async (folder: string, hash: string): Promise<Buffer | undefined> => {
  const bytes = await readFile(join(folder, hash)).catch((error: unknown) => {
    if (codeOf(error) !== "ENOENT") throw error;
  });
  return bytes !== undefined && (await hashOf(bytes)) === hash ? bytes : undefined;
};
