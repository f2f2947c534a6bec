import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { sha256 } from "../file/inspect.ts";

/** Keeps the user's bytes and the merged ones, named by SHA-256, until the landing is done. */

/** Returns the SHA-256. The bytes are durable by then. */
export const keepBytes = (folder: string, bytes: Buffer): string => {
  const hash = sha256(bytes);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const fd = openSync(join(folder, hash), "w", 0o600);
  try {
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  return hash;
};

export const keptBytes = (folder: string, hash: string): Buffer | undefined => {
  const file = join(folder, hash);
  if (!existsSync(file)) return undefined;
  const bytes = readFileSync(file);
  return sha256(bytes) === hash ? bytes : undefined;
};
