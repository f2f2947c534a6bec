import { writeFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Given } from "../../protocol/event/workspace.ts";
import type { Limits } from "../../protocol/limit.ts";
import { patternOf } from "../tree/commit.ts";
import { copyFolder } from "./copy.ts";
import { findFolders } from "./find.ts";
import { FileRefused } from "../file/folder.ts";
import { removeBelow } from "../file/remove-tree.ts";
import type { Git } from "../git/git.ts";
import type { Overlays } from "./overlay.ts";
import type { createWorktreeRecords } from "../record.ts";

/**
 * Finds a project's ignored dependency folders, decides how a Task's commands get them, and records that in the
 * WorktreeRecord.
 */

export type ProviderDeps = {
  dataDir: string;
  names: readonly string[];
  tier: 1 | 2 | 3;
  overlays: Overlays;
  records: ReturnType<typeof createWorktreeRecords>;
  limits: Limits;
  /** The search path for programs. */
  path: string;
};

export const createDependencyProvider = ({
  dataDir,
  names,
  tier,
  overlays,
  records,
  limits,
  path: programs,
}: ProviderDeps) => ({
  /** Provides the folders anew. The worktree must hold nothing but its commit. */
  async give(taskID: string, worktree: string, git: { project: Git; tree: Git }): Promise<void> {
    const record = records.of(taskID);
    if (record === undefined) return;
    const { toplevel } = record;
    // Removes copies of a killed run, or of a service in another tier.
    for (const { path } of record.given?.folders ?? [])
      if (!(await isTracked(git.tree, path))) await removeFolder(worktree, path);
    const keep = (folders: Given[]) => {
      writeFileSync(`${worktree}.exclude`, folders.map(({ path }) => `${patternOf(path)}\n`).join(""), { mode: 0o600 });
      records.keep(taskID, { ...(records.of(taskID) ?? record), given: { tier, folders } });
    };
    const found = await findFolders({ toplevel, worktree, names, hidden: dataDir, git: git.project });
    const open = found.filter(({ problem }) => problem === undefined).map(({ path }) => path);
    const leftOut = (path: string, reason: string): Given => ({ path, how: "left-out", reason });
    const plan = tier === 1 ? await overlays.plan(toplevel, open) : undefined;
    const folders: Given[] = [];
    // Recorded before the first copy exists, so that after a crash the copies are known and removed.
    if (plan === undefined && open.length > 0) keep(open.map((path) => ({ path, how: "copied" })));
    for (const { path, problem } of found)
      if (problem !== undefined) folders.push(leftOut(path, problem));
      else if (plan !== undefined) folders.push(plan(path));
      else folders.push(await copyFolder({ toplevel, worktree, path, scratch: `${worktree}.copy`, programs, limits }));
    keep(folders);
  },

  tier,

  /** How checks at `tree`, which holds a commit, will get the folders; nothing is copied yet. */
  async forCheckout({ toplevel }: { toplevel: string }, tree: string, git: Git): Promise<Given[]> {
    const found = await findFolders({ toplevel, worktree: tree, names, hidden: dataDir, git });
    const open = found.filter(({ problem }) => problem === undefined).map(({ path }) => path);
    const plan = tier === 1 ? await overlays.plan(toplevel, open) : undefined;
    return open.map((path): Given => plan?.(path) ?? { path, how: "copied" });
  },

  isCurrent: (taskID: string): boolean => {
    const given = records.of(taskID)?.given;
    return given === undefined || given.tier === tier;
  },

  /** Removes what the Task's commands installed: overlays, and untracked folders of these names. */
  async clear(taskID: string, worktree: string, git: Git): Promise<void> {
    await overlays.remove(taskID);
    for (const path of await namedFolders(worktree, new Set(names)))
      if (!(await isTracked(git, path))) await removeFolder(worktree, path);
  },
});

/** Removes a folder of the tree. If its path leads through a link, an agent put that there, and nothing is removed. */
const removeFolder = async (worktree: string, path: string): Promise<void> => {
  try {
    await removeBelow(worktree, path);
  } catch (error) {
    if (!(error instanceof FileRefused)) throw error;
  }
};

const isTracked = async (git: Git, path: string): Promise<boolean> =>
  (await git.run(["ls-files", "-z", "--", path])).stdout.length > 0;

const maxWalked = 2000;

const namedFolders = async (worktree: string, names: ReadonlySet<string>): Promise<string[]> => {
  const found: string[] = [];
  const queue = [""];
  for (let at = 0; at < Math.min(queue.length, maxWalked); at += 1) {
    const folder = queue[at] ?? "";
    for (const entry of await readdir(join(worktree, folder), { withFileTypes: true }).catch(() => [])) {
      const path = folder === "" ? entry.name : `${folder}/${entry.name}`;
      if (!entry.isDirectory() || entry.name === ".git") continue;
      if (names.has(entry.name)) found.push(path);
      else queue.push(path);
    }
  }
  return found;
};
