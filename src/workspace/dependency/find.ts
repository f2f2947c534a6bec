import { existsSync, fstatSync, lstatSync, readFileSync, type Stats } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Given } from "../../protocol/event/workspace.ts";
import type { Git } from "../git/git.ts";
import { isWithin } from "../../process/sandbox/system-mount.ts";
import { sizeLimits, textAt } from "../file/bounded-read.ts";
import { FileRefused, openFolder } from "../file/folder.ts";

/**
 * Finds the folders of a project that Git ignores and commands need (installed packages, build results): by name, at
 * the project's root and next to its packages. `overlay.ts` and `copy.ts` decide how a Task gets them.
 */

export type Found = {
  /** Relative to the project's top. */
  path: string;
  /** Why no Task may have it; undefined: it may. */
  problem: string | undefined;
};

export type FindRequest = {
  toplevel: string;
  worktree: string;
  names: readonly string[];
  /** The service's data folder, which is never provided. */
  hidden: string;
  /** git in the project's own files. */
  git: Git;
};

/** Folders deeper than this are not found; `workspace.setup` can create them. */
const maxDepth = 5;
const maxWalked = 2000;
/** Characters; keeps the list within the size of one event. */
const maxPath = 256;
/** Folders beyond this number are left out. */
const maxFolders = 64;

export const findFolders = async (request: FindRequest): Promise<Found[]> => {
  const { toplevel, worktree, git } = request;
  const names = new Set(request.names);
  if (names.size === 0) return [];
  const candidates: string[] = [];
  const queue = [""];
  for (let at = 0; at < Math.min(queue.length, maxWalked); at += 1) {
    const folder = queue[at] ?? "";
    const entries = await readdir(join(toplevel, folder), { withFileTypes: true }).catch(() => []);
    // A nested repository is another project.
    if (folder !== "" && entries.some(({ name }) => name === ".git")) continue;
    for (const entry of entries) {
      const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
      if (names.has(entry.name)) {
        const fits = (entry.isDirectory() || entry.isSymbolicLink()) && path.length <= maxPath;
        if (fits && !isOfTree(worktree, path)) candidates.push(path);
      } else if (entry.isDirectory() && !entry.name.startsWith(".") && path.split("/").length < maxDepth)
        queue.push(path);
    }
  }
  const ignored = await ignoredOf(toplevel, git, candidates);
  const mounts = mountPoints();
  const found = ignored.slice(0, maxFolders).map((path) => ({ path, problem: problemOf(request, path, mounts) }));
  const [beyond] = ignored.slice(maxFolders);
  const problem = `there are ${ignored.length} such folders, of which ${maxFolders} are given`;
  return beyond === undefined ? found : [...found, { path: beyond, problem }];
};

/**
 * Whether the path cannot be provided: the Task's tree has a file or folder of its own there, or lacks the parent
 * folder.
 */
const isOfTree = (worktree: string, path: string): boolean => {
  const parent = lstatSync(join(worktree, path, ".."), { throwIfNoEntry: false });
  return parent?.isDirectory() !== true || lstatSync(join(worktree, path), { throwIfNoEntry: false }) !== undefined;
};

/**
 * The paths that Git ignores. A plain line in the root's .gitignore, the usual case, is recognised without starting
 * git.
 */
const ignoredOf = async (toplevel: string, git: Git, paths: readonly string[]): Promise<string[]> => {
  const plain = plainLines(toplevel);
  const told = (path: string): boolean => {
    const name = path.slice(path.lastIndexOf("/") + 1);
    const folders = path.split("/").slice(0, -1);
    const own = folders.some((_, at) => existsSync(join(toplevel, ...folders.slice(0, at + 1), ".gitignore")));
    return !own && (plain.has(name) || plain.has(`/${path}`));
  };
  const open = paths.filter((path) => !told(path));
  if (open.length === 0) return [...paths];
  const input = open.map((path) => `./${path}\0`).join("");
  const env = { GIT_LITERAL_PATHSPECS: "0" };
  const asked = await git.run(["check-ignore", "-z", "--stdin"], { input, env, ok: [0, 1] });
  const yes = new Set(asked.stdout.toString("utf8").split("\0"));
  return paths.filter((path) => told(path) || yes.has(`./${path}`));
};

const plainLines = (toplevel: string): Set<string> => {
  const file = join(toplevel, ".gitignore");
  let lines: string[];
  try {
    lines = textAt(file, sizeLimits.config, { nofollow: true })?.split(/\r?\n/) ?? [];
  } catch (error) {
    if (error instanceof FileRefused) return new Set();
    throw error;
  }
  if (lines.some((line) => line.startsWith("!"))) return new Set();
  return new Set(lines.map((line) => line.replace(/^\*\*\//, "").replace(/\/$/, "")));
};

/** Why a folder cannot be provided at present; undefined: it can. */
export const problemOf = (
  request: Pick<FindRequest, "toplevel" | "hidden">,
  path: string,
  mounts = mountPoints(),
): string | undefined => {
  const whole = join(request.toplevel, path);
  const stats = folderStats(request.toplevel, path);
  if (typeof stats === "string") return stats;
  const owners = [process.getuid?.(), lstatSync(request.toplevel).uid];
  if (!owners.includes(stats.uid)) return `it belongs to the user ${stats.uid}`;
  if (isWithin(whole, request.hidden)) return "the service's data folder is in it";
  return mounts.some((point) => isWithin(whole, point)) ? "another file system is mounted in it" : undefined;
};

/** Stats of the folder, following no link in any component; a string says why there are none. */
export const folderStats = (toplevel: string, path: string): Stats | string => {
  try {
    using folder = openFolder(toplevel, path.split("/"));
    return fstatSync(folder.fd);
  } catch (error) {
    return error instanceof Error && error.name === "FileRefused" ? error.message : "it cannot be opened";
  }
};

const mountPoints = (): string[] => {
  if (process.platform !== "linux") return [];
  const lines = readFileSync("/proc/self/mountinfo", "utf8").split("\n");
  return lines.flatMap((line) => {
    const point = line.split(" ")[4];
    return point === undefined
      ? []
      : [point.replace(/\\([0-7]{3})/g, (_, code) => String.fromCharCode(parseInt(code, 8)))];
  });
};

/** The note that an agent gets with its first command: its file tools show the tree on disk, its commands see more. */
export const providedNote = (given: readonly Given[]): string => {
  const listed = (how: Given["how"]) => given.filter((each) => each.how === how);
  const names = (folders: readonly Given[]) =>
    folders
      .slice(0, 8)
      .map(({ path }) => path)
      .join(", ");
  const layered = listed("layer");
  const readOnly = listed("read-only");
  const copied = listed("copied");
  const missing = listed("left-out");
  return [
    ...(layered.length + readOnly.length === 0
      ? []
      : [
          `Commands find the project's ${names([...layered, ...readOnly])} as installed by its user; the file tools do not show ${layered.length + readOnly.length === 1 ? "it" : "them"}. Nothing in there becomes part of the change.`,
        ]),
    ...(readOnly.length === 0 ? [] : [`Read-only: ${names(readOnly)}.`]),
    ...(copied.length === 0 ? [] : [`Copied from the project, and no part of the change: ${names(copied)}.`]),
    ...missing
      .slice(0, 8)
      .map(
        ({ path, reason }) => `Not there: ${path} (${reason ?? "unknown"}). Install what you need yourself if you can.`,
      ),
  ].join(" ");
};
