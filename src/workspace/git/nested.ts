import { readdirSync } from "node:fs";
import { join } from "node:path";

const maxNested = { folders: 2000, depth: 6 };
const skipped = new Set(["node_modules", ".venv", "vendor", "target", ".git"]);

/** The `.git` of repositories inside the directory, as far as a bounded walk finds them. */
export const nestedGits = (directory: string): string[] => {
  const found: string[] = [];
  const queue = [{ folder: directory, depth: 0 }];
  for (let at = 0; at < Math.min(queue.length, maxNested.folders); at += 1) {
    const { folder, depth } = queue[at] ?? { folder: directory, depth: maxNested.depth };
    let entries;
    try {
      entries = readdirSync(folder, { withFileTypes: true });
    } catch {
      continue;
    }
    for (const entry of entries) {
      if (entry.name === ".git" && depth > 0 && !entry.isSymbolicLink()) found.push(join(folder, entry.name));
      if (entry.isDirectory() && depth < maxNested.depth && !skipped.has(entry.name))
        queue.push({ folder: join(folder, entry.name), depth: depth + 1 });
    }
  }
  return found;
};
