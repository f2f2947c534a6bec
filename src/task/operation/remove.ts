import { isActive } from "../../domain/state/task.ts";
import { ServiceError } from "../../error.ts";
import type { Tasks, TasksDeps } from "../tasks.ts";
import type { Change } from "./commit-change.ts";

/** Deletes an ended Task: its log, worktree and branch. `removed` is called once the log is gone. */
export const createRemove =
  (
    { store, engine, workspaces }: Pick<TasksDeps, "store" | "engine" | "workspaces">,
    { own }: Change,
    removed: (taskID: string) => void,
  ): Tasks["remove"] =>
  async (directory, taskID) => {
    for (;;) {
      const state = await own(directory, taskID);
      if (isActive(state))
        throw new ServiceError("task_active", `Expected ${taskID} to be inactive, it is running. Cancel it first.`);
      await store.orphans.markOrphans(taskID);
      workspaces.markForRemoval(taskID);
      // False: a message came in between and restarted the Task, so look at it again.
      if (await store.erase(taskID, state.version)) break;
    }
    // The Task's last run may still be finishing, with files open.
    removed(taskID);
    await engine.interrupt(taskID);
    await workspaces.remove(taskID);
  };
