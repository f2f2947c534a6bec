import { serviceSource } from "../../../protocol/event/source.ts";
import { rootOf } from "../../../domain/state/stream.ts";
import { isActive, type TaskState } from "../../../domain/state/task.ts";
import { dueNow } from "../../../engine/due.ts";
import { ServiceError } from "../../../error.ts";
import { newID } from "../../../id.ts";
import type { RetryAccepted } from "../../../protocol/task/accepted.ts";
import type { Tasks, TasksDeps } from "../../tasks.ts";
import type { Change } from "../commit-change.ts";
import type { Reserve } from "../../budget-reservation.ts";

/**
 * Begins the next attempt of an ended Task: the same request, on the files as the project has them then. `restarted` is
 * called after the commit.
 */
export const createRetry =
  (
    { now, disk }: Pick<TasksDeps, "now" | "disk">,
    { own, change }: Change,
    reserve: Reserve,
    restarted: (taskID: string) => void,
  ): Tasks["retry"] =>
  async (directory, taskID, { source = "api" }, once) => {
    refuseActive(await own(directory, taskID));
    await disk.admit();
    const messageID = newID("msg");
    const accepted = await change<RetryAccepted>(taskID, once, async (state) => {
      refuseActive(state);
      const { also, events } = await reserve.again(state);
      return {
        also,
        status: 202,
        body: {
          taskID,
          messageID,
          accepted: true,
          attempt: state.attempt + 1,
          status: "running",
          lifecycleStatus: "active",
          eventID: 0,
        },
        events: [
          ...events,
          {
            type: "message.received",
            data: {
              messageID,
              sessionID: rootOf(state),
              source,
              text: state.request,
              attachments: state.attachments,
              disposition: "restarted",
              ...(serviceSource(source) === undefined ? {} : { byUser: true as const }),
              retried: state.revertOf === null && state.mergeOf === null ? "agents" : "service",
            },
          },
        ],
        due: dueNow(now(), state.priority),
      };
    });
    if (!accepted.replayed) restarted(taskID);
    return accepted;
  };

const refuseActive = (state: TaskState): void => {
  if (isActive(state))
    throw new ServiceError("task_active", `Expected ${state.taskID} to be inactive, it is running.`, {
      details: { taskID: state.taskID },
    });
};
