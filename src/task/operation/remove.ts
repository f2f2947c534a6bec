import { isActive, type TaskState } from "../../domain/state/task.ts";
import { messageOf, ServiceError } from "../../error.ts";
import { withReserve } from "../../store/disk/disk.ts";
import { isFull } from "../../store/disk/full.ts";
import { unavailable } from "../../store/unavailable.ts";
import type { TasksDeps } from "../tasks.ts";
import { clearTheWay } from "../workspace/landing.ts";

/** Deletes a Task. `find`: the Task as it is now, or the reason why it may not be deleted. */
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
    /** A log that is longer than what is kept back for deletions has the space that the worktree takes. */
    const erase = (id: string, version: number): Promise<boolean> =>
      store.erase(id, version).catch(async (error: unknown) => {
        if (!isFull(error)) throw error;
        await engine.interrupt(id);
        await workspaces.remove(id);
        return store.erase(id, version);
      });
    /**
     * An ended Task holds no lock any more; one that an earlier version ended may: its log, which tells what began,
     * goes.
     */
    const endLanding = async ({ project }: TaskState): Promise<void> => {
      if (workspaces.unfinishedLanding(taskID) !== taskID) return;
      try {
        using _turn = await workspaces.landingTurn(project, AbortSignal.timeout(10_000));
        await clearTheWay({ store, workspaces }, taskID);
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
      // False: a message came in between and restarted the Task, so look at it again.
      if (await erase(taskID, state.version)) break;
    }
    // The Task's last run may still be finishing, with files open.
    removed(taskID);
    await engine.interrupt(taskID);
    // The Task is gone; what of it has to stay on the disk is named by the doctor, and tried again by the hour.
    await workspaces.remove(taskID).catch((error: unknown) => {
      log.warn({ taskID, error: messageOf(error) }, "the files of a deleted Task could not be removed");
    });
    await disk.look();
  };
