import { isActive } from "../../domain/state/task.ts";
import { dueNow } from "../../engine/due.ts";
import type { TaskStatus } from "../../protocol/task/status.ts";
import type { Tasks, TasksDeps } from "../tasks.ts";
import type { Change } from "./commit-change.ts";

/** Changes a Task's title, priority, budget, or whether it is archived. */
export const createUpdate =
  ({ now }: TasksDeps, { own, change }: Change, status: (taskID: string) => Promise<TaskStatus>): Tasks["update"] =>
  async (directory, taskID, patch) => {
    await own(directory, taskID);
    const { title, priority, archived, budget } = patch;
    const data = {
      ...(title === undefined ? {} : { title }),
      ...(priority === undefined ? {} : { priority }),
      ...(archived === undefined ? {} : { archived }),
      ...(budget === undefined ? {} : { budget }),
    };
    await change(taskID, undefined, (state) => ({
      status: 200,
      body: {},
      events: [{ type: "task.updated", data }],
      ...(priority !== undefined && isActive(state) && state.attemptStartedAt === null
        ? { due: { at: now(), rank: dueNow(new Date(state.createdAt), priority).rank } }
        : {}),
    }));
    return status(taskID);
  };
