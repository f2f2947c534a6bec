import type { Git } from "../git/git.ts";
import { pace } from "../../pace.ts";
import { decodePath, encodePath } from "../file/path.ts";

/** Reads entries of the project's index, and computes the object ids that git would enter for files. */

export type IndexEntry = { mode: string; object: string };

/** Most bytes of paths passed to git as arguments; for more, all entries are listed and filtered. */
const argumentBytes = 100_000;

/** Index entries of these paths and of the paths below them. A path in conflict has the mode "conflict". */
export const entriesOf = async (git: Git, paths: readonly string[]): Promise<Map<string, IndexEntry>> => {
  const fit = paths.every((path) => path.isWellFormed()) && paths.join("").length < argumentBytes;
  const { stdout } = await git.run(["ls-files", "-s", "-z", "--", ...(fit ? paths : [])]);
  const entries = new Map<string, IndexEntry>();
  const wanted = new Set(paths);
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

/** Object ids of files after the conversions (line endings) that the attributes ask for, in the order of `paths`. */
export const convertedIDs = async (git: Git, paths: readonly string[]): Promise<string[]> => {
  if (paths.length === 0) return [];
  const input = Buffer.concat(paths.map((path) => Buffer.from(`${quoted(path)}\n`, "latin1")));
  const { stdout } = await git.run(["hash-object", "--stdin-paths"], { input });
  return stdout.toString("latin1").split("\n");
};

/** A path on one line, in the quoting that git itself uses. */
const quoted = (path: string): string =>
  `"${[...encodePath(path)].map((byte) => (byte < 0x20 || byte > 0x7e || byte === 0x22 || byte === 0x5c ? `\\${byte.toString(8).padStart(3, "0")}` : String.fromCharCode(byte))).join("")}"`;
