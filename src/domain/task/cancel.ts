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
 * commit. So are those of a Task whose node is `gone`: no other node can end it.
 */
export const cancel = (
  state: TaskState,
  request: EventData["cancel.requested"],
  at: string,
  gone = false,
): CancelDecision => {
  if (state.lifecycle === "cancelled") return { kind: "nothing" };
  if (state.lifecycle !== "active") return { kind: "settled" };
  if (state.landingStarted !== null || state.landed !== null || state.installing !== null) return { kind: "landing" };
  const { cancel: before } = state;
  const isKnown = before !== null && (before.mode === "stop" || request.mode === "wrap_up");
  if (isKnown && !gone) return { kind: "nothing" };
  // Before the first reply, or while waiting for the provider or for space, there is nothing to wrap up.
  const waits = state.reply === null || state.retry !== null || state.deferred !== null || state.pause !== null;
  const mode = waits || gone ? "stop" : request.mode;
  const asked = isKnown ? before : { ...request, mode };
  const requested: DomainEvent[] = isKnown ? [] : [{ type: "cancel.requested", data: asked }];
  const asks = endAsks(openAsks(state), "cancel");
  if (state.startedAt !== null && !gone)
    return { kind: "events", events: [...requested, ...asks], stops: mode === "stop" };
  return { kind: "events", events: [...requested, ...asks, settledEvent(cancelledEnd(asked), "", at)], stops: true };
};
