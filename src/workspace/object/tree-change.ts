import { hashOf } from "../../hash.ts";
import type { Git } from "../git/git.ts";
import { pace } from "../../pace.ts";
import { decodePath } from "../file/path.ts";

/** What differs between two commits, path by path. */

export type Change = { path: string; from: Side; to: Side };

/** Renames are listed as a deletion and an addition. */
export const changesOf = async (git: Git, from: string, to: string): Promise<Change[]> => {
  const { stdout } = await git.run(["diff-tree", "-r", "-z", "--raw", "--no-renames", from, to]);
  const changes: Change[] = [];
  // `:<mode> <mode> <object> <object> <letter> NUL <path> NUL`
  for (let at = 0; ; ) {
    const head = stdout.indexOf(0, at);
    const end = stdout.indexOf(0, head + 1);
    if (head < 0 || end < 0) return changes;
    const [oldMode = "", newMode = "", oldObject = "", newObject = ""] = stdout
      .toString("latin1", at + 1, head)
      .split(" ");
    const path = decodePath(stdout.subarray(head + 1, end));
    changes.push({ path, from: sideOf(oldMode, oldObject), to: sideOf(newMode, newObject) });
    at = end + 1;
    await pace();
  }
};

/** Identifies the difference between two commits: equal for the same paths with the same contents on both sides. */
export const changeHash = async (git: Git, from: string, to: string): Promise<string> => {
  const { stdout } = await git.run(["diff-tree", "-r", "-z", "--raw", "--no-renames", from, to]);
  return hashOf(stdout);
};

const sideOf = (mode: string, object: string): Side => (mode === "000000" ? null : { mode, object });

export type Side = { mode: string; object: string } | null;

export const diffArgs = ["diff", "--no-color", "--find-renames", "--ignore-submodules=dirty"];

/** Unified diff between two commits. */
export const diffOfCommits = async (git: Git, from: string, to: string): Promise<string> =>
  (await git.run([...diffArgs, from, to, "--"])).stdout.toString("utf8");
