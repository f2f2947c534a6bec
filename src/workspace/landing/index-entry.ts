import type { Git } from "../git/git.ts";
import { splitNul } from "../git/output.ts";

/** Reads entries of the project's index. */

export type IndexEntry = { mode: string; object: string };

/** Bytes of paths passed to git as arguments; with more, all entries are listed and filtered. */
const argumentBytes = 100_000;

/** Index entries of these paths and of the paths below them. A path in conflict has the mode "conflict". */
export const entriesOf = async (git: Git, paths: readonly string[]): Promise<Map<string, IndexEntry>> => {
  const fit = paths.every((path) => path.isWellFormed()) && paths.join("").length < argumentBytes;
  const { stdout } = await git.run(["ls-files", "-s", "-z", "--", ...(fit ? paths : [])]);
  const entries = new Map<string, IndexEntry>();
  for (const record of splitNul(stdout)) {
    const tab = record.indexOf("\t");
    const [mode = "", object = "", stage] = record.slice(0, tab).split(" ");
    entries.set(record.slice(tab + 1), { mode: stage === "0" ? mode : "conflict", object });
  }
  return entries;
};
