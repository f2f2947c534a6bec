import { isActive, type TaskState } from "../../domain/state/task.ts";
import { messageOf, ServiceError } from "../../error.ts";
import { withReserve } from "../../store/disk/disk.ts";
import { isFull } from "../../store/disk/full.ts";
import { unavailable } from "../../store/unavailable.ts";
import type { TasksDeps } from "../tasks.ts";
import { endUnfinishedLanding } from "../workspace/landing.ts";

/** Deletes a Task. `find` resolves to the Task as it is now, or rejects with the reason why it may not be deleted. */
export type Remove = (taskID: string, find: () => Promise<TaskState>) => Promise<void>;

/**
 * Deletes an ended Task: its log, worktree and branch, also on a full disk. `removed` is called once the log is gone.
 */
export const createRemove =
  (
    { store, engine, workspaces, disk, log }: Pick<TasksDeps, "store" | "engine" | "workspaces" | "disk" | "log">,
    removed: (taskID: string) => void,
  ): Remove =>
  async (taskID, find) => {
    /**
     * On a full disk, erasing a long log may need more than the reserve; then the worktree is removed first to free
     * space.
     */
    const erase = (id: string, version: number): Promise<boolean> =>
      store.erase(id, version).catch(async (error: unknown) => {
        if (!isFull(error)) throw error;
        await engine.interrupt(id);
        await workspaces.remove(id);
        return store.erase(id, version);
      });
    /**
     * Ends a landing that the Task left unfinished, because the log that describes it is deleted. A Task that this
     * version ended has none; one that an earlier version ended may still hold its locks.
     */
    const endLanding = async ({ project }: TaskState): Promise<void> => {
      if (workspaces.unfinishedLanding(taskID) !== taskID) return;
      try {
        using _turn = await workspaces.landingTurn(project, AbortSignal.timeout(10_000));
        await endUnfinishedLanding({ store, workspaces }, taskID);
      } catch (error) {
        throw unavailable(error);
      }
    };
    for (;;) {
      const state = await find();
      if (isActive(state))
        throw new ServiceError("task_active", `Expected ${taskID} to be inactive, it is running. Cancel it first.`);
      await endLanding(state);
      await store.orphans.markOrphans(taskID);
      await withReserve(disk, () => workspaces.markForRemoval(taskID)).catch((error: unknown) => {
        throw isFull(error) ? unavailable(error) : error;
      });
      // False: a message restarted the Task in between, so look at it again.
      if (await erase(taskID, state.version)) break;
    }
    // The Task's last run may still be finishing, with files open.
    removed(taskID);
    await engine.interrupt(taskID);
    // The Task itself is gone. Files that cannot be removed are named by the doctor, and removal is tried again hourly.
    await workspaces.remove(taskID).catch((error: unknown) => {
      log.warn({ taskID, error: messageOf(error) }, "the files of a deleted Task could not be removed");
    });
    await disk.look();
  };
