import type { EventData } from "../../protocol/event/event.ts";
import type { LongText } from "../../protocol/text.ts";
import type { TurnFailure } from "../../protocol/event/conversation.ts";
import type { DomainEvent } from "../event.ts";

/** The ways a Task can end, and the event that records it. */

export type End =
  | { lifecycleStatus: "completed" }
  | { lifecycleStatus: "failed"; failure: TurnFailure }
  | { lifecycleStatus: "cancelled"; reason: string };

export const cancelledEnd = (request: EventData["cancel.requested"]): End => ({
  lifecycleStatus: "cancelled",
  reason:
    request.reason === "" ? `Cancelled by ${request.surface}` : `Cancelled by ${request.surface}: ${request.reason}`,
});

/** The terminal event. `summary`: the agent's last text. */
export const settledEvent = (end: End, summary: LongText, at: string): DomainEvent => {
  switch (end.lifecycleStatus) {
    case "completed":
      return { type: "task.settled", data: { lifecycleStatus: "completed", summary } };
    case "failed": {
      const { code, message, retryable, remedy } = end.failure;
      return {
        type: "task.settled",
        data: { lifecycleStatus: "failed", summary, error: message, errorInfo: { code, retryable, remedy, at } },
      };
    }
    case "cancelled":
      return {
        type: "task.settled",
        data: {
          lifecycleStatus: "cancelled",
          summary,
          error: end.reason,
          errorInfo: { code: "cancelled", retryable: false, remedy: null, at },
        },
      };
  }
};
