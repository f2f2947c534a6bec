import { createHash } from "node:crypto";
import { join } from "node:path";
import { asBuffer, type Job } from "../../thread.ts";
import { readBounded } from "../file/bounded-read.ts";
import { encodePath } from "../file/path.ts";
import { gitlinksOf, type IndexEntry, indexEntries, sharedIndexOf } from "../git/index-file.ts";
import { atOnce, indexAt, type IndexPlace, readIndexWith } from "../git/index-reading.ts";
import { statsOf } from "./seen.ts";

/** Reads what the indexes of a repository link to, and again only when an index changes. */
export interface Indexes {
  /**
   * Paths of the repositories that the index of this Git directory links to. A large index is not read here: the answer
   * is its last known paths, and `read` must be called.
   */
  gitlinksIn(gitDir: string, idBytes: number): readonly Buffer[];
  /** Reads the indexes that were too large. Resolves to whether there were any. */
  read(): Promise<boolean>;
  /**
   * Whether the index has this file, without conversion, at this path of the work tree. `file` undefined: whether the
   * index has nothing at the path.
   */
  has(gitDir: string, path: string, file: { bytes: Buffer; executable: boolean } | undefined): Promise<boolean>;
}

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
        const { links, shared } = await linksIn({ path: join(gitDir, "index"), idBytes });
        const paths = links.map(asBuffer);
        if (shared !== undefined)
          paths.push(...(await linksIn({ path: join(gitDir, shared), idBytes })).links.map(asBuffer));
        known.set(gitDir, { stamp, idBytes, paths });
      }
      return true;
    },
    async has(gitDir, path, file) {
      const idBytes = known.get(gitDir)?.idBytes ?? 20;
      const { there, entry } = await entryIn({ path: join(gitDir, "index"), idBytes, wanted: encodePath(path) });
      if (file === undefined || entry === undefined) return file === undefined && entry === undefined && there;
      const isExecutable = (entry.mode & 0o111) !== 0;
      return entry.stage === 0 && isExecutable === file.executable && blobID(file.bytes, idBytes).equals(entry.id);
    },
  };
};

type Links = { links: Uint8Array[]; shared: string | undefined };

export const linkReading: Job<IndexPlace, Links> = {
  name: "index-links",
  run(place) {
    const index = indexAt(place);
    return {
      // Copies, because a view of the index would hand over the whole index with each path.
      links: gitlinksOf(index, place.idBytes).map((path) => Uint8Array.from(path)),
      shared: sharedIndexOf(index, place.idBytes),
    };
  },
};

type Entry = { there: boolean; entry: (Pick<IndexEntry, "mode" | "stage"> & { id: Uint8Array }) | undefined };

export const entryReading: Job<IndexPlace & { wanted: Uint8Array }, Entry> = {
  name: "index-entry",
  run({ wanted, ...place }) {
    const index = indexAt(place);
    for (const { path, mode, stage, id } of indexEntries(index, place.idBytes))
      if (path.equals(wanted)) return { there: true, entry: { mode, stage, id: Uint8Array.from(id) } };
    return { there: index.length > 0, entry: undefined };
  },
};

/** An index that cannot be read counts as empty. */
const linksIn = (place: IndexPlace): Promise<Links> =>
  readIndexWith(linkReading, place).catch(() => ({ links: [], shared: undefined }));
const entryIn = (place: IndexPlace & { wanted: Uint8Array }): Promise<Entry> =>
  readIndexWith(entryReading, place).catch(() => ({ there: false, entry: undefined }));

const blobID = (bytes: Buffer, idBytes: number): Buffer =>
  createHash(idBytes === 20 ? "sha1" : "sha256")
    .update(`blob ${bytes.length}\0`)
    .update(bytes)
    .digest();
