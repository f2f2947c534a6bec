import type { EventData } from "../../protocol/event/event.ts";
import { endAsks } from "../session/ask.ts";
import { cancelledEnd, settledEvent } from "./end.ts";
import type { DomainEvent } from "../event.ts";
import type { TaskState } from "../state/task.ts";
import { openAsks } from "../state/stream.ts";

/** The decision on a request to cancel. */

export type CancelDecision =
  /** `stops`: the run must be ended at once. */
  | { kind: "events"; events: DomainEvent[]; stops: boolean }
  /** The Task is cancelled already, or the same request is on record. */
  | { kind: "nothing" }
  | { kind: "settled" }
  /** The landing is past the point of no return: wait until it is finished, then the Task is settled. */
  | { kind: "landing" };

/**
 * Decides on a request to cancel. A Task that never ran has nothing to stop, so its cancellation and its end are one
 * commit.
 */
export const cancel = (state: TaskState, request: EventData["cancel.requested"], at: string): CancelDecision => {
  if (state.lifecycle === "cancelled") return { kind: "nothing" };
  if (state.lifecycle !== "active") return { kind: "settled" };
  if (state.landingStarted !== null || state.landed !== null || state.installing !== null) return { kind: "landing" };
  if (state.cancel !== null && (state.cancel.mode === "stop" || request.mode === "wrap_up")) return { kind: "nothing" };
  // Before the first reply, or while waiting for the provider or for space, there is nothing to wrap up.
  const waits = state.reply === null || state.retry !== null || state.deferred !== null || state.pause !== null;
  const mode = waits ? "stop" : request.mode;
  const asked = { ...request, mode };
  const requested: DomainEvent = { type: "cancel.requested", data: asked };
  if (state.startedAt !== null) {
    const ended = endAsks(openAsks(state), "cancel");
    return { kind: "events", events: [requested, ...ended], stops: mode === "stop" };
  }
  return { kind: "events", events: [requested, settledEvent(cancelledEnd(asked), "", at)], stops: true };
};
