import { createHash } from "node:crypto";
import { type BigIntStats, lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";

/**
 * What a folder holds, as one short text: two that are equal look the same to every process. What others remove
 * meanwhile is not there: a service that is watched would have the error in the middle of its own work.
 */

/** undefined: it was removed by somebody else. */
const ifThere = <T>(read: () => T): T | undefined => {
  try {
    return read();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
};

/** A file may change twice within a tick of the file system's clock without another time. */
const tickMs = 100;

/** SQLite makes its index of the write-ahead log anew when nobody has the database open. */
const isMade = (name: string): boolean => name.endsWith("-shm");

export const createDisk = (): ((root: string) => string) => {
  const known = new Map<string, { stamp: string; hash: string }>();

  const contentOf = (path: string, stats: BigIntStats): string | undefined => {
    const stamp = `${stats.ino} ${stats.size} ${stats.mtimeNs} ${stats.ctimeNs}`;
    const before = known.get(path);
    if (before?.stamp === stamp) return before.hash;
    const now = Date.now();
    const bytes = ifThere(() => readFileSync(path));
    if (bytes === undefined) return undefined;
    const hash = createHash("sha256").update(bytes).digest("base64");
    if (now - Number(stats.ctimeNs / 1_000_000n) > tickMs) known.set(path, { stamp, hash });
    else known.delete(path);
    return hash;
  };

  return (root) => {
    const whole = createHash("sha256");
    const visit = (folder: string, below: string): void => {
      for (const name of ifThere(() => readdirSync(folder))?.toSorted() ?? []) {
        if (isMade(name)) continue;
        const path = join(folder, name);
        const stats = lstatSync(path, { throwIfNoEntry: false, bigint: true });
        if (stats === undefined) continue;
        const line = `${below}${name}\0${stats.mode}`;
        if (stats.isDirectory()) {
          whole.update(`${line}\n`);
          visit(path, `${below}${name}/`);
        } else if (stats.isSymbolicLink()) whole.update(`${line}\0${ifThere(() => readlinkSync(path))}\n`);
        else if (stats.isFile()) whole.update(`${line}\0${stats.mtimeNs}\0${contentOf(path, stats)}\n`);
        else whole.update(`${line}\n`);
      }
    };
    visit(root, "");
    return whole.digest("base64url");
  };
};
