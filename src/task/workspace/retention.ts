import { type TaskState, isActive } from "../../domain/state/task.ts";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import type { Store } from "../../store/store.ts";
import { taskOfFork } from "../../workspace/worktree/fork.ts";
import type { Workspaces } from "../../workspace/workspace.ts";

/**
 * Removes worktrees of Tasks that ended more than `retentionHours` ago, at the start and periodically. Their work stays
 * on their branches.
 */

export type RetentionDeps = {
  store: Pick<Store, "state">;
  workspaces: Pick<
    Workspaces,
    "listWorktrees" | "hasWorktree" | "retire" | "removeUnused" | "remove" | "isMarkedForRemoval" | "unmarkForRemoval"
  >;
  retentionHours: number;
  log: Log;
  now: () => Date;
};

export const createRetention = ({ store, workspaces, retentionHours, log, now }: RetentionDeps) => {
  /** Tasks whose reason was logged, so that it is logged once and not at every sweep. */
  const said = new Set<string>();
  const keep = (taskID: string, reason: string) => {
    if (said.size > 10_000) said.clear();
    if (!said.has(taskID)) log.warn({ taskID, reason }, "a worktree is kept");
    said.add(taskID);
  };

  const tidy = async (taskID: string): Promise<void> => {
    const owner = taskOfFork(taskID);
    if ((await store.state(owner)) === undefined) {
      if (owner !== taskID) return;
      if (workspaces.isMarkedForRemoval(taskID)) await workspaces.remove(taskID);
      // The Task was deleted after its worktree was listed, so there is none left.
      else if (workspaces.hasWorktree(taskID))
        keep(taskID, "no Task with this id is known, so its work may still be needed");
      return;
    }
    workspaces.unmarkForRemoval(taskID);
    if (await tidyUnused(taskID, owner)) return;
    let wanted = false;
    const retired = await workspaces.retire(taskID, async () => {
      const state = await store.state(owner);
      if (state === undefined || !isDue(state)) return undefined;
      // The last attempt has no workspace, so the worktree is an earlier attempt's. A Task in place has no worktree.
      const isLeft = state.workspace === null && state.earlier !== null;
      wanted = isLeft || state.workspace?.kind === "worktree";
      return isLeft ? null : workOf(state);
    });
    if (!retired.removed && wanted) keep(taskID, retired.reason);
  };

  /** A run that ends while its files are being created does the same, unless it is killed. */
  const tidyUnused = (key: string, owner: string): Promise<boolean> =>
    workspaces.removeUnused(key, async () => {
      const state = await store.state(owner);
      return state !== undefined && isDue(state) ? removableFilesOf(state, key) : undefined;
    });

  const isDue = (state: TaskState): boolean =>
    !isActive(state) &&
    state.settledAt !== null &&
    Date.parse(state.settledAt) + retentionHours * hour <= now().getTime();

  const stop = new AbortController();
  const wanted = new Set<string>();
  const busy = new Set<string>();
  const workers = new Set<Promise<void>>();
  let active = 0;
  let listing: Promise<void> = Promise.resolve();
  /** Handles one Task after another. After an error the Task's worktree is kept until the next sweep. */
  const work = async (): Promise<void> => {
    active += 1;
    for (const taskID of wanted) {
      wanted.delete(taskID);
      if (stop.signal.aborted) continue;
      busy.add(taskID);
      await tidy(taskID).catch((error: unknown) => keep(taskID, messageOf(error)));
      busy.delete(taskID);
    }
    active -= 1;
  };
  const sweep = (taskIDs: readonly string[]): void => {
    for (const taskID of taskIDs) if (!busy.has(taskID)) wanted.add(taskID);
    for (let free = most - active; free > 0 && wanted.size > 0; free -= 1) {
      const worker = work().finally(() => workers.delete(worker));
      workers.add(worker);
    }
  };
  const all = (): void => {
    listing = listing
      .then(async () => sweep(await workspaces.listWorktrees(stop.signal)))
      .catch((error: unknown) => log.warn({ error: messageOf(error) }, "the worktrees could not be listed"));
  };
  const timer = setInterval(all, Math.min(hour, Math.max(60_000, (retentionHours * hour) / 4)));
  timer.unref();
  setImmediate(all);

  return {
    /** Without retention a Task's worktree is removed as soon as the Task ends. */
    settled(taskID: string): void {
      if (retentionHours === 0) sweep([taskID]);
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      stop.abort();
      await listing;
      await Promise.all(workers);
    },
  };
};

/**
 * What may be removed of the files of an ended Task, or of one of its forks, because nobody can have worked in them:
 * "made", also complete files; "begun", only half-made ones; undefined, nothing. See `Workspaces.removeUnused`.
 */
export const removableFilesOf = (
  { taskID, workspace, earlier }: TaskState,
  key: string,
): "made" | "begun" | undefined => {
  if (key !== taskID) return "begun";
  if (workspace !== null) return undefined;
  return earlier === null ? "made" : "begun";
};

const hour = 3_600_000;

/** How many worktrees are removed at once. */
const most = 4;

/** The commit with a Task's work; undefined for a Task that works in place. */
export const workOf = ({ workspace, landed, tree }: TaskState): string | undefined =>
  workspace?.kind === "worktree" ? (landed?.commit ?? tree?.commit ?? workspace.baseCommit ?? undefined) : undefined;
