import { join } from "node:path";
import { someEntries } from "../../process/sandbox/some-entries.ts";

/** `names`: in all folders together, since reading them blocks this thread. */
const maxNested = { folders: 2000, depth: 6, names: 25_000 };
const skipped = new Set(["node_modules", ".venv", "vendor", "target", ".git"]);

/** The `.git` of repositories inside the directory, as far as a bounded walk finds them. */
export const nestedGits = (directory: string): string[] => {
  const found: string[] = [];
  const queue = [{ folder: directory, depth: 0 }];
  let left = maxNested.names;
  for (let at = 0; at < Math.min(queue.length, maxNested.folders) && left > 0; at += 1) {
    const { folder, depth } = queue[at] ?? { folder: directory, depth: maxNested.depth };
    const { entries } = someEntries(folder, left);
    left -= entries.length;
    for (const entry of entries) {
      if (entry.name === ".git" && depth > 0 && !entry.isSymbolicLink()) found.push(join(folder, entry.name));
      if (entry.isDirectory() && depth < maxNested.depth && !skipped.has(entry.name))
        queue.push({ folder: join(folder, entry.name), depth: depth + 1 });
    }
  }
  return found;
};
