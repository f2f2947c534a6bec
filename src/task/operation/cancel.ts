import { openAsks } from "../../domain/state/stream.ts";
import { isActive, type TaskState } from "../../domain/state/task.ts";
import { cancel } from "../../domain/task/cancel.ts";
import { dueNow, dueToEnd } from "../../engine/due.ts";
import { ServiceError } from "../../error.ts";
import { markPerson } from "../../protocol/event/source.ts";
import type { CancelAccepted } from "../../protocol/task/accepted.ts";
import { lostMs } from "../../store/node.ts";
import type { Store } from "../../store/store.ts";
import type { Tasks, TasksDeps } from "../tasks.ts";
import type { Change } from "./commit-change.ts";

/** Cancels a Task. A Task that is landing or has ended is refused with the state it ended in. */
export const createCancel =
  (
    { store, now }: Pick<TasksDeps, "store" | "now">,
    { own, change }: Change,
    stateOf: (taskID: string) => Promise<TaskState>,
  ): Tasks["cancel"] =>
  async (directory, taskID, body, once, by) => {
    await own(directory, taskID);
    const surface = by ?? body.surface ?? "api";
    const person = by === undefined ? markPerson(surface) : {};
    const request = { surface, reason: body.reason ?? "", mode: body.mode ?? "stop", ...person };
    return change<CancelAccepted>(taskID, once, async (state) => {
      const gone = isActive(state) && (await isGone(store, taskID, now()));
      const decision = cancel(state, request, now().toISOString(), gone);
      const accepted = (lifecycleStatus: "active" | "cancelled") => ({
        taskID,
        accepted: true as const,
        status: lifecycleStatus === "active" ? ("running" as const) : ("inactive" as const),
        lifecycleStatus,
        eventID: 0,
      });
      switch (decision.kind) {
        case "landing":
        case "settled": {
          const found = decision.kind === "landing" ? await landed(stateOf, taskID) : state;
          throw new ServiceError(
            "task_settled",
            `Expected ${taskID} to be active, it is ${found.lifecycle === "active" ? "landing" : found.lifecycle}.`,
            { details: { taskID, lifecycleStatus: found.lifecycle } },
          );
        }
        case "nothing": {
          const active = isActive(state);
          const lifecycle = active ? "active" : "cancelled";
          return { status: active ? 202 : 200, body: accepted(lifecycle), events: [], urgent: true };
        }
        case "events": {
          const ends = decision.events.some((event) => event.type === "task.settled");
          return {
            status: ends ? 200 : 202,
            body: accepted(ends ? "cancelled" : "active"),
            events: decision.events,
            // A waiting run has to close its open asks, so the Task becomes due.
            ...(ends
              ? { due: null }
              : decision.stops
                ? { due: dueToEnd(now()) }
                : openAsks(state).length > 0
                  ? { due: dueNow(now(), "critical") }
                  : {}),
            revoke: decision.stops,
            urgent: true,
          };
        }
      }
    });
  };

/** Whether the only node that could end the Task has been silent for so long that it no longer holds the claim. */
const isGone = async ({ nodes }: Pick<Store, "nodes">, taskID: string, now: Date): Promise<boolean> => {
  const placed = (await nodes?.elsewhere([taskID]))?.get(taskID);
  if (placed === undefined || placed.isUp || placed.movable) return false;
  return placed.seenAt === null || now.getTime() - Date.parse(placed.seenAt) >= lostMs;
};

/** Waits up to five seconds for a landing to end, so that the refusal can name the final state. */
const landed = async (stateOf: (taskID: string) => Promise<TaskState>, taskID: string): Promise<TaskState> => {
  for (let tries = 0; tries < 100; tries++) {
    const state = await stateOf(taskID);
    if (!isActive(state)) return state;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return stateOf(taskID);
};
