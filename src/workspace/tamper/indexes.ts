import { createHash } from "node:crypto";
import { join } from "node:path";
import { most, readBounded, readLarge } from "../file/bounded-read.ts";
import { encodePath } from "../file/path.ts";
import { gitlinksOf, indexEntries, sharedIndexOf } from "../git/index-file.ts";
import { statsOf } from "./seen.ts";

/** What the indexes of a repository link to, read again only when an index changed. */
export interface Indexes {
  /**
   * Paths of the repositories that the index of this Git directory links to. An index that is large is not read here:
   * its last known paths are answered, and `read` must be called.
   */
  gitlinksIn(gitDir: string, idBytes: number): readonly Buffer[];
  /** Reads what was too large. Resolves to whether anything was. */
  read(): Promise<boolean>;
  /**
   * Whether the file is what the index has at this path of the work tree, without conversion. undefined: whether the
   * index has nothing there.
   */
  has(gitDir: string, path: string, file: { bytes: Buffer; executable: boolean } | undefined): Promise<boolean>;
}

/** Bytes; larger ones are read while the service goes on. */
const atOnce = 1024 * 1024;

type Known = { stamp: string; idBytes: number; paths: readonly Buffer[] };

const none: readonly Buffer[] = [];

export const createIndexes = (): Indexes => {
  const known = new Map<string, Known>();
  const waiting = new Map<string, Omit<Known, "paths">>();

  return {
    gitlinksIn(gitDir, idBytes) {
      const path = join(gitDir, "index");
      const stats = statsOf(path);
      if (stats?.isFile() !== true) return none;
      const stamp = `${stats.ino}.${stats.size}.${stats.mtimeMs}.${stats.ctimeMs}`;
      const before = known.get(gitDir);
      if (before?.stamp === stamp) return before.paths;
      if (stats.size > atOnce) {
        waiting.set(gitDir, { stamp, idBytes });
        return before?.paths ?? none;
      }
      try {
        const index = readBounded(path, atOnce, { nofollow: true }) ?? Buffer.alloc(0);
        const paths = gitlinksOf(index, idBytes);
        if (sharedIndexOf(index, idBytes) !== undefined) waiting.set(gitDir, { stamp, idBytes });
        else known.set(gitDir, { stamp, idBytes, paths });
        return paths;
      } catch {
        return before?.paths ?? none;
      }
    },
    async read() {
      if (waiting.size === 0) return false;
      for (const [gitDir, { stamp, idBytes }] of waiting) {
        waiting.delete(gitDir);
        const index = await read(join(gitDir, "index"));
        const paths = gitlinksOf(index, idBytes);
        const shared = sharedIndexOf(index, idBytes);
        if (shared !== undefined) paths.push(...gitlinksOf(await read(join(gitDir, shared)), idBytes));
        known.set(gitDir, { stamp, idBytes, paths });
      }
      return true;
    },
    async has(gitDir, path, file) {
      const index = await read(join(gitDir, "index"));
      const idBytes = known.get(gitDir)?.idBytes ?? 20;
      const wanted = encodePath(path);
      const entry = [...indexEntries(index, idBytes)].find((each) => each.path.equals(wanted));
      if (file === undefined || entry === undefined)
        return file === undefined && entry === undefined && index.length > 0;
      const isExecutable = (entry.mode & 0o111) !== 0;
      return entry.stage === 0 && isExecutable === file.executable && entry.id.equals(blobID(file.bytes, idBytes));
    },
  };
};

const read = async (path: string): Promise<Buffer> => {
  try {
    return (await readLarge(path, most.index)) ?? Buffer.alloc(0);
  } catch {
    return Buffer.alloc(0);
  }
};

const blobID = (bytes: Buffer, idBytes: number): Buffer =>
  createHash(idBytes === 20 ? "sha1" : "sha256")
    .update(`blob ${bytes.length}\0`)
    .update(bytes)
    .digest();
