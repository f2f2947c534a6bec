import { lstatSync } from "node:fs";
import { osPath } from "../file/path.ts";
import type { Git, GitOptions } from "../git/git.ts";
import { pace } from "../../pace.ts";
import { partsIn } from "../git/output.ts";

/** Runs and parses `git status`. */

export type Change = {
  path: string;
  untracked: boolean;
  staged: boolean;
  link: boolean;
  /** Whether nothing is on disk at the path. */
  gone: boolean;
  headMode: string;
  headObject: string;
};

type Status = { oid: string; head: string; changes: Change[] };

const statusArgs = ["status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all", "--no-renames"];

/** Submodules are compared by their commit alone: no process is started inside them. */
export const statusOf = async (
  git: Git,
  paths: readonly string[] = [],
  more: readonly string[] = [],
  options: GitOptions = {},
): Promise<Status> => {
  const args = [...statusArgs, "--ignore-submodules=dirty", ...more, "--", ...paths];
  const { stdout } = await git.run(args, options);
  const status: Status = { oid: "", head: "", changes: [] };
  for (const record of partsIn(stdout)) {
    await pace();
    const [kind] = record;
    if (kind === "#") {
      const [, key, value = ""] = record.split(" ");
      if (key === "branch.oid") status.oid = value;
      if (key === "branch.head") status.head = record.slice("# branch.head ".length);
      continue;
    }
    const untracked = kind === "?" || kind === "!";
    const fields = record.split(" ");
    // 1 XY sub mH mI mW hH hI path; u XY sub m1 m2 m3 mW h1 h2 h3 path
    const count = untracked ? 1 : kind === "u" ? 10 : 8;
    const [, states = "", , headMode = "", indexMode = "", workMode = "", headObject = ""] = fields;
    status.changes.push({
      path: fields.slice(count).join(" "),
      untracked,
      staged: !untracked && states[0] !== ".",
      gone: kind === "1" && workMode === "000000",
      link: !untracked && [headMode, indexMode, workMode].includes("160000"),
      headMode,
      headObject,
    });
  }
  return status;
};

/** Whether a change is at the folder or below it. git writes an untracked folder with a trailing slash. */
export const isIn = (folder: string, { path }: Pick<Change, "path">): boolean =>
  path === folder || path.startsWith(`${folder}/`);

/**
 * How many bytes of a regular file git would read, holes included, and whether its owner may; undefined for anything
 * else.
 */
export const fileAt = (path: string): { bytes: number; readable: boolean } | undefined => {
  try {
    const stats = lstatSync(osPath(path));
    return stats.isFile() ? { bytes: stats.size, readable: (stats.mode & 0o400) !== 0 } : undefined;
  } catch {
    return undefined;
  }
};

/** Why the entry at a path cannot be committed; undefined: it can. */
export const specialOf = (path: string): string | undefined => {
  try {
    const stats = lstatSync(osPath(path));
    if (stats.isFIFO()) return "a FIFO";
    if (stats.isSocket()) return "a socket";
    return stats.isCharacterDevice() || stats.isBlockDevice() ? "a device" : undefined;
  } catch {
    return undefined;
  }
};
