import { type Dir, type Dirent, opendirSync } from "node:fs";

/**
 * Reads at most `most` entries of a folder, synchronously: a folder that anybody may have filled can hold millions.
 * `crowded`: there are more. A folder that does not exist or cannot be read counts as empty.
 */
export const someEntries = (folder: string, most: number): { entries: Dirent[]; crowded: boolean } => {
  const entries: Dirent[] = [];
  let open: Dir;
  try {
    open = opendirSync(folder, { bufferSize: Math.min(most + 1, 256) });
  } catch {
    return { entries, crowded: false };
  }
  try {
    for (let entry = open.readSync(); entry !== null; entry = open.readSync()) {
      if (entries.length === most) return { entries, crowded: true };
      entries.push(entry);
    }
  } catch {
    // The folder became unreadable meanwhile.
  } finally {
    open.closeSync();
  }
  return { entries, crowded: false };
};
