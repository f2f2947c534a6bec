import { isActive } from "../../domain/state/task.ts";
import { ServiceError } from "../../error.ts";
import type { Tasks, TasksDeps } from "../tasks.ts";
import type { Change } from "./change.ts";

/** Deletes a Task that has ended: its log, its worktree and branch. `removed` hears of it once the log is gone. */
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
      await store.orphans.leave(taskID);
      workspaces.markForRemoval(taskID);
      // A message that came in between restarted it; then it is not inactive any more.
      if (await store.erase(taskID, state.version)) break;
    }
    // Its last run may still be at its end, with the files open.
    removed(taskID);
    await engine.interrupt(taskID);
    await workspaces.remove(taskID);
  };
