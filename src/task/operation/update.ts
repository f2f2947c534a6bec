import { isActive } from "../../domain/state/task.ts";
import { dueNow } from "../../engine/due.ts";
import type { TaskStatus } from "../../protocol/task/status.ts";
import type { Tasks, TasksDeps } from "../tasks.ts";
import type { MissionBudget } from "../../protocol/mission/status.ts";
import type { Change } from "./commit-change.ts";
import type { Reserve } from "../budget-reservation.ts";

/** Changes a Task's title, priority, budget, or whether it is archived. */
export const createUpdate =
  (
    { now }: TasksDeps,
    { own, change }: Change,
    reserve: Reserve,
    status: (taskID: string) => Promise<TaskStatus>,
  ): Tasks["update"] =>
  async (directory, taskID, patch) => {
    await own(directory, taskID);
    const { title, priority, archived, budget } = patch;
    const data = {
      ...(title === undefined ? {} : { title }),
      ...(priority === undefined ? {} : { priority }),
      ...(archived === undefined ? {} : { archived }),
      ...(budget === undefined ? {} : { budget }),
    };
    await change(taskID, undefined, async (state) => ({
      status: 200,
      also: budget === undefined ? [] : (await reserve.changed(state, budget as MissionBudget | null)).also,
      body: {},
      events: [{ type: "task.updated", data }],
      ...(priority !== undefined && isActive(state) && state.attemptStartedAt === null
        ? { due: { at: now(), rank: dueNow(new Date(state.createdAt), priority).rank } }
        : {}),
    }));
    return status(taskID);
  };
