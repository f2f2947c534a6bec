import { existsSync } from "node:fs";
import { most, readLarge } from "../file/bounded-read.ts";
import type { Git } from "../git/git.ts";

/**
 * Paths that an index tells git not to look at: "assume unchanged" and "skip worktree" (gitformat-index(5)). With such
 * a flag, the file that was checked on disk and the one that is committed could differ. Parsed here, because asking git
 * costs a process per commit. An index that cannot be parsed yields none; git then reports what is wrong with it.
 */
export const hiddenPaths = (index: Buffer, idBytes: number): Buffer[] => {
  const hidden: Buffer[] = [];
  try {
    if (index.toString("latin1", 0, 4) !== "DIRC") return [];
    const version = index.readUInt32BE(4);
    let name: Buffer = Buffer.alloc(0);
    for (let at = 12, left = index.readUInt32BE(8); left > 0; left -= 1) {
      const flagsAt = at + 40 + idBytes;
      const flags = index.readUInt16BE(flagsAt);
      const extended = (flags & 0x4000) !== 0;
      const skipped = extended && (index.readUInt16BE(flagsAt + 2) & 0x4000) !== 0;
      let from = flagsAt + (extended ? 4 : 2);
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
      if (end === -1) return hidden;
      const own = index.subarray(from, end);
      name = version === 4 ? Buffer.concat([name.subarray(0, name.length - strip), own]) : own;
      at = version === 4 ? end + 1 : at + ((end - at + 8) & ~7);
      if ((flags & 0x8000) !== 0 || skipped) hidden.push(name);
    }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  return hidden;
};

/** Files on disk that an index tells git not to look at. */
export const hiddenIn = async (worktree: string, index: string, idBytes: number): Promise<Buffer[]> => {
  const bytes = await readLarge(index, most.index);
  const hidden = bytes === undefined ? [] : hiddenPaths(bytes, idBytes);
  // A file that is not on disk may be excluded by a sparse checkout.
  return hidden.filter((path) => existsSync(Buffer.concat([Buffer.from(`${worktree}/`), path])));
};

/** Clears the flags, so that what is on disk is what gets committed. */
export const showHidden = async (git: Git, hidden: readonly Buffer[], env: Record<string, string> = {}) => {
  if (hidden.length === 0) return;
  const input = Buffer.concat(hidden.flatMap((path) => [path, Buffer.of(0)]));
  for (const mark of ["--no-assume-unchanged", "--no-skip-worktree"])
    await git.run(["-c", "core.splitIndex=false", "update-index", "-z", mark, "--stdin"], { input, env });
};
