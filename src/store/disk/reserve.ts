import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { mkdir, open, rm, stat } from "node:fs/promises";
import { join } from "node:path";

/**
 * Space kept back on the disk of the data folder: files that are deleted part by part when a cancel or a deletion finds
 * no room to write, and written again when there is space. Other writes get none of it.
 */
export interface Reserve {
  /** Bytes of all parts together. */
  readonly bytes: number;
  /** A part was given up: what is free now is only for cancels and deletions. */
  isBroken(): boolean;
  isWhole(): boolean;
  /** Deletes a part. false: none is left. */
  giveUp(): boolean;
  /** Writes the missing parts. Rejects when there is no room; then the reserve is as it was. */
  restore(): Promise<void>;
  /** Whether the disk takes new data. Writes a file and removes it. */
  probe(): Promise<boolean>;
}

/**
 * In several parts, so that another program that takes the space of the first leaves the rest: ours may not be the only
 * program that waits for space.
 */
const parts = 4;

/**
 * Random, because some file systems store nothing for zeros. One block is written repeatedly, because random bytes cost
 * time.
 */
const block = 256 * 1024;

export const createReserve = async (folder: string, wanted: number): Promise<Reserve> => {
  const partBytes = Math.max(64 * 1024, Math.floor(wanted / parts / 65_536) * 65_536);
  const pathOf = (part: number) => join(folder, String(part));
  const there = new Set<number>();
  let broken = false;

  for (let part = 0; part < parts; part += 1) {
    const found = await stat(pathOf(part)).catch(() => undefined);
    // A crash may have left a part whose bytes never reached the disk.
    if (found?.size === partBytes && found.blocks * 512 >= partBytes) there.add(part);
  }

  const write = async (path: string, bytes: number, sync: boolean): Promise<void> => {
    try {
      const file = await open(path, "w", 0o600);
      try {
        const data = randomBytes(Math.min(block, bytes));
        for (let at = 0; at < bytes; at += data.length)
          await file.write(data, 0, Math.min(data.length, bytes - at), at);
        if (sync) await file.sync();
      } finally {
        await file.close();
      }
    } catch (error) {
      await rm(path, { force: true });
      throw error;
    }
  };

  return {
    bytes: partBytes * parts,
    isBroken: () => broken,
    isWhole: () => there.size === parts,
    giveUp() {
      const [part] = there;
      if (part === undefined) return false;
      rmSync(pathOf(part), { force: true });
      there.delete(part);
      broken = true;
      return true;
    },
    async restore() {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      for (let part = 0; part < parts; part += 1) {
        if (there.has(part)) continue;
        await write(pathOf(part), partBytes, false);
        there.add(part);
      }
      broken = false;
    },
    async probe() {
      const path = join(folder, "probe");
      try {
        await mkdir(folder, { recursive: true, mode: 0o700 });
        await write(path, partBytes, true);
        await rm(path, { force: true });
        return true;
      } catch {
        return false;
      }
    },
  };
};
