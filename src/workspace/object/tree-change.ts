import type { Git } from "../git/git.ts";
import { splitNul } from "../git/output.ts";

/** What differs between two commits, path by path. */

export type Change = { path: string; from: Side; to: Side };

/** Renames are listed as a deletion and an addition. */
export const changesOf = async (git: Git, from: string, to: string): Promise<Change[]> => {
  const { stdout } = await git.run(["diff-tree", "-r", "-z", "--raw", "--no-renames", from, to]);
  const parts = splitNul(stdout);
  const changes: Change[] = [];
  for (let at = 0; at + 1 < parts.length; at += 2) {
    const [oldMode = "", newMode = "", oldObject = "", newObject = ""] = (parts[at] ?? "").slice(1).split(" ");
    const side = (mode: string, object: string): Side => (mode === "000000" ? null : { mode, object });
    changes.push({ path: parts[at + 1] ?? "", from: side(oldMode, oldObject), to: side(newMode, newObject) });
  }
  return changes;
};

export type Side = { mode: string; object: string } | null;
