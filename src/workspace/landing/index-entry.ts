import type { Git } from "../git/git.ts";
import { createPace } from "../../pace.ts";
import { decodePath } from "../file/path.ts";

/** Reads entries of the project's index. */

export type IndexEntry = { mode: string; object: string };

/** Bytes of paths passed to git as arguments; with more, all entries are listed and filtered. */
const argumentBytes = 100_000;

/** Index entries of these paths and of the paths below them. A path in conflict has the mode "conflict". */
export const entriesOf = async (git: Git, paths: readonly string[]): Promise<Map<string, IndexEntry>> => {
  const fit = paths.every((path) => path.isWellFormed()) && paths.join("").length < argumentBytes;
  const { stdout } = await git.run(["ls-files", "-s", "-z", "--", ...(fit ? paths : [])]);
  const entries = new Map<string, IndexEntry>();
  const wanted = new Set(paths);
  const pace = createPace();
  // `<mode> <object> <stage> TAB <path> NUL`
  for (let at = 0; at < stdout.length; ) {
    const tab = stdout.indexOf(0x09, at);
    const end = stdout.indexOf(0, tab);
    if (tab < 0 || end < 0) break;
    const path = decodePath(stdout.subarray(tab + 1, end));
    if (fit || isAtOrBelow(path, wanted)) {
      const [mode = "", object = "", stage] = stdout.toString("latin1", at, tab).split(" ");
      entries.set(path, { mode: stage === "0" ? mode : "conflict", object });
    }
    at = end + 1;
    await pace();
  }
  return entries;
};

/** Whether the path, or a folder that it is in, is one of these. */
export const isAtOrBelow = (path: string, paths: ReadonlySet<string>): boolean => {
  if (paths.has(path)) return true;
  for (let at = path.indexOf("/"); at >= 0; at = path.indexOf("/", at + 1))
    if (paths.has(path.slice(0, at))) return true;
  return false;
};
