import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { Processes } from "../../process/process.ts";
import { changesOf } from "../object/tree-change.ts";
import { mergeOnto } from "../object/rebase.ts";
import { setHead } from "../tree/git-dir.ts";
import type { createWorktreeRecords, WorktreeRecord } from "../record.ts";
import type { WorktreePlace } from "./open.ts";
import type { createRetention } from "./retire.ts";
import { branchOf, type WorktreeFolder } from "./create.ts";
import type { createKeyedMutex } from "../../async/mutex.ts";
import { openFolder } from "../file/folder.ts";
import type { ForkMerge, Prepared, Workspace, Workspaces } from "../workspace.ts";
import type { Commit } from "../object/commit.ts";

/**
 * Worktrees for agents that work at the same time in one Task: each starts from a commit of the Task's tree and is
 * named by the Task's id and a suffix. Their changes are merged into the Task's files one after another.
 */

export const forkKey = (taskID: string, name: string): string => `${taskID}-${name}`;

/** The Task that a worktree, or a fork, belongs to. */
export const taskOfFork = (key: string): string => key.split("-")[0] ?? key;

/** The keys of a Task's forks that are still on record. */
export const forksOf = (home: string, taskID: string): string[] => {
  try {
    return readdirSync(home).flatMap((name) =>
      name.startsWith(`${taskID}-`) && name.endsWith(".json") ? [name.slice(0, -".json".length)] : [],
    );
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
};

export const createForks = (deps: {
  folder: WorktreeFolder;
  records: ReturnType<typeof createWorktreeRecords>;
  retention: ReturnType<typeof createRetention>;
  processes: Pick<Processes, "killAll">;
  give: (key: string, record: WorktreeRecord) => Promise<void>;
  open: (key: string, prepared: Prepared, tip: string) => Promise<Workspace>;
  workspaceOf: (key: string, prepared: Prepared, record: WorktreeRecord) => Promise<Workspace>;
  placeOf: (workspace: Workspace) => WorktreePlace;
  /** Serialises creation and removal of each worktree. */
  alone: ReturnType<typeof createKeyedMutex>;
}): Pick<Workspaces, "fork" | "mergeFork" | "closeFork"> => {
  const { folder, records, retention, processes, give, open, workspaceOf, placeOf, alone } = deps;
  return {
    async fork(workspace, name, { commit, tree, tip }) {
      const { taskID, record } = placeOf(workspace);
      const key = forkKey(taskID, name);
      using _alone = await alone(key);
      const worktree = folder.worktreeOf(key);
      const root = record.prefix === "" ? worktree : join(worktree, record.prefix);
      const place = { root, worktree, branch: branchOf(key), baseCommit: commit, baseTree: tree };
      const { snapshot: _, ...prepared } = { ...workspace.prepared, ...place };
      if (records.of(key)?.base === commit) return await open(key, prepared, commit);
      const { base: _base, given: _given, ...from } = record;
      const own: WorktreeRecord = { ...from, gitDir: folder.gitDirOf(key) };
      records.keep(key, { ...own, base: "" });
      await folder.checkOutBase(key, own, tip ?? commit, commit, { later: true });
      // HEAD is the base, so that the changes of `tip` show as uncommitted.
      if (tip !== undefined) await setHead(own.gitDir, commit);
      await give(key, records.of(key) ?? own);
      records.keep(key, records.of(key) ?? own);
      if (record.prefix !== "") openFolder(worktree, record.prefix.split("/"), true)[Symbol.dispose]();
      return await workspaceOf(key, prepared, records.of(key) ?? own);
    },
    async mergeFork(workspace, fork, tip, message) {
      const { taskID: key } = placeOf(fork);
      const place = placeOf(workspace);
      const commit = await fork.commit(message);
      await workspace.reset(tip);
      return commit === undefined ? { ok: true, files: 0 } : joinInto(place, key, commit, tip);
    },
    async closeFork(workspace, name, commit) {
      const key = forkKey(placeOf(workspace).taskID, name);
      await processes.killAll(key);
      using _alone = await alone(key);
      // A worktree that could not be removed is put on record and removed later; no work waits for that.
      if (commit === undefined) await retention.remove(key).catch(() => {});
      else await retention.retire(key, commit);
    },
  };
};

/** Merges the fork's change into the Task's files, which are clean at `tip`. A conflict changes nothing. */
const joinInto = async (
  { git, objects }: Pick<WorktreePlace, "git" | "objects">,
  key: string,
  commit: Commit,
  tip: string,
): Promise<ForkMerge> => {
  const merged = await mergeOnto(objects, commit, tip);
  if (merged.conflicts.length > 0)
    return { ok: false, paths: merged.conflicts, branch: branchOf(key), commit: commit.commit };
  const files = await changesOf(objects, tip, merged.tree);
  if (files.length > 0) await git.run(["read-tree", "-u", "-m", tip, merged.tree], { timeoutMs: 10 * 60_000 });
  return { ok: true, files: files.length };
};
