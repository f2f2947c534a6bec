/** Reads a git index (gitformat-index(5)), because asking git costs a process. */

export type IndexEntry = {
  path: Buffer;
  mode: number;
  id: Buffer;
  stage: number;
  /** The index tells git not to look at the file: "assume unchanged" or "skip worktree". */
  hidden: boolean;
};

export const gitlinkMode = 0o160000;

/** Bytes. No file has a longer path; in version 4 each name may add to the one before it, without end. */
const longestPath = 4096;

/**
 * Yields the entries as far as they can be read; returns the offset of their end, or undefined if they cannot be read
 * to the end. If a part of the index is in another file (`sharedIndexOf`), a name may be empty. `idBytes`: 20, or 32 in
 * a repository with SHA-256.
 */
export function* indexEntries(index: Buffer, idBytes: number): Generator<IndexEntry, number | undefined> {
  try {
    if (index.toString("latin1", 0, 4) !== "DIRC") return undefined;
    const version = index.readUInt32BE(4);
    let path: Buffer = Buffer.alloc(0);
    let at = 12;
    for (let left = index.readUInt32BE(8); left > 0; left -= 1) {
      const flags = index.readUInt16BE(at + 40 + idBytes);
      const extended = (flags & 0x4000) !== 0;
      const skipped = extended && (index.readUInt16BE(at + 42 + idBytes) & 0x4000) !== 0;
      let from = at + 42 + idBytes + (extended ? 2 : 0);
      // Version 4 gives the length to cut from the previous name, in git's offset encoding, and has no padding.
      let strip = 0;
      if (version === 4) {
        let byte = index.readUInt8(from++);
        strip = byte & 0x7f;
        while ((byte & 0x80) !== 0) {
          byte = index.readUInt8(from++);
          strip = ((strip + 1) << 7) | (byte & 0x7f);
        }
      }
      const end = index.indexOf(0, from);
      if (end === -1) return undefined;
      const own = index.subarray(from, end);
      path = version === 4 ? Buffer.concat([path.subarray(0, Math.max(0, path.length - strip)), own]) : own;
      if (path.length > longestPath) return undefined;
      const id = index.subarray(at + 40, at + 40 + idBytes);
      const hidden = (flags & 0x8000) !== 0 || skipped;
      yield { path, mode: index.readUInt32BE(at + 24), id, stage: (flags >> 12) & 3, hidden };
      at = version === 4 ? end + 1 : at + ((end - at + 8) & ~7);
    }
    return at;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return undefined;
  }
}

const gitlinkBytes = Buffer.from([0, 0, 0xe0, 0]);

/** Most links that are followed. Repositories have hundreds; a forged index may have millions. */
const mostLinks = 5000;

/** Paths of repositories inside the work tree that the index links to: submodules, and others. */
export const gitlinksOf = (index: Buffer, idBytes: number): Buffer[] => {
  const links: Buffer[] = [];
  if (index.includes(gitlinkBytes))
    for (const { path, mode } of indexEntries(index, idBytes))
      if (mode === gitlinkMode && links.push(path) === mostLinks) break;
  return links;
};

const endOf = (entries: Generator<IndexEntry, number | undefined>): number | undefined => {
  for (let next = entries.next(); ; next = entries.next()) if (next.done === true) return next.value;
};

/** The name of the file, beside the index, that holds its other entries; undefined: the index holds them all. */
export const sharedIndexOf = (index: Buffer, idBytes: number): string | undefined => {
  if (!index.includes("link")) return undefined;
  // After the entries come extensions, each with its length, up to the checksum.
  let at = endOf(indexEntries(index, idBytes)) ?? index.length;
  for (; at + 8 <= index.length - idBytes; at += 8 + index.readUInt32BE(at + 4)) {
    // "link": the id, and two bitmaps.
    if (index.toString("latin1", at, at + 4) !== "link" || at + 8 + idBytes > index.length) continue;
    const id = index.subarray(at + 8, at + 8 + idBytes);
    return id.every((byte) => byte === 0) ? undefined : `sharedindex.${id.toString("hex")}`;
  }
  return undefined;
};
