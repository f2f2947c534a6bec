import { endAsks } from "../../domain/session/ask.ts";
import type { DomainEvent } from "../../domain/event.ts";
import { type TaskState, isActive } from "../../domain/state/task.ts";
import { openAsks } from "../../domain/state/stream.ts";
import { dueNow } from "../../engine/due.ts";
import { ServiceError } from "../../error.ts";
import type { InterruptAccepted } from "../../protocol/task/accepted.ts";
import type { Change } from "./commit-change.ts";
import type { Tasks, TasksDeps } from "../tasks.ts";

/** Stops all delegated sessions, for a message that interrupts. */
export const interruptAll = ({ sessions }: TaskState, surface: string): DomainEvent[] =>
  sessions
    .filter(({ callID, end, interrupted }) => callID !== null && end === null && interrupted === null)
    .map(({ sessionID }) => ({
      type: "session.interrupted",
      data: { sessionID, surface, reason: "a message came in" },
    }));

/**
 * Stops one delegated session. This only records an event; the run follows the log and acts on it
 * (`session/interruption.ts`).
 */
export const createInterrupt =
  ({ now }: Pick<TasksDeps, "now">, { own, change }: Change): Tasks["interrupt"] =>
  async (directory, taskID, sessionID, { surface = "api", reason = "" }, once) => {
    await own(directory, taskID);
    return change<InterruptAccepted>(taskID, once, (state) => {
      const session = state.sessions.find((each) => each.sessionID === sessionID);
      if (session === undefined)
        throw new ServiceError(
          "session_not_found",
          `Expected the id of a session of ${taskID}, got ${JSON.stringify(sessionID.slice(0, 80))}.`,
        );
      if (session.callID === null)
        throw new ServiceError(
          "invalid_request",
          `Expected a delegated session, got the ${session.agent}'s; POST /task/${taskID}/cancel ends the Task.`,
        );
      if (session.end !== null || !isActive(state))
        throw new ServiceError("session_ended", `Expected ${sessionID} to be running, it has ended.`, {
          details: { sessionID, outcome: session.end?.outcome ?? "stopped" },
        });
      const asks = openAsks(state).filter((ask) => ask.sessionID === sessionID);
      return {
        status: 202,
        body: { taskID, sessionID, accepted: true, status: "running", lifecycleStatus: "active", eventID: 0 },
        events:
          session.interrupted === null
            ? [{ type: "session.interrupted", data: { sessionID, surface, reason } }, ...endAsks(asks, "end")]
            : [],
        // A Task that waits has no run to act on the event, so it becomes due.
        ...(openAsks(state).length > 0 || state.deferred !== null ? { due: dueNow(now(), state.priority) } : {}),
      };
    });
  };
