import type { EventData } from "../../protocol/event/event.ts";
import { endAsks } from "../session/ask.ts";
import { cancelledEnd, settledEvent } from "./end.ts";
import type { DomainEvent } from "../event.ts";
import type { TaskState } from "../state/task.ts";
import { openAsks } from "../state/stream.ts";

/** What a request to cancel comes to. */

export type CancelDecision =
  /** `stops`: the run is to be ended at once. */
  | { kind: "events"; events: DomainEvent[]; stops: boolean }
  /** Already cancelled, or the same request stands. */
  | { kind: "nothing" }
  | { kind: "settled" }
  /** Past the point of no return: wait for the landing, then it is settled. */
  | { kind: "landing" };

/** A Task that never ran has nothing to kill, so its cancellation and its end are one commit. */
export const cancel = (state: TaskState, request: EventData["cancel.requested"], at: string): CancelDecision => {
  if (state.lifecycle === "cancelled") return { kind: "nothing" };
  if (state.lifecycle !== "active") return { kind: "settled" };
  if (state.landingStarted !== null || state.landed !== null || state.installing !== null) return { kind: "landing" };
  if (state.cancel !== null && (state.cancel.mode === "stop" || request.mode === "wrap_up")) return { kind: "nothing" };
  // Before the first reply, or while the provider is waited for, there is nothing to wrap up.
  const mode = state.reply === null || state.retry !== null || state.deferred !== null ? "stop" : request.mode;
  const asked = { ...request, mode };
  const requested: DomainEvent = { type: "cancel.requested", data: asked };
  if (state.startedAt !== null) {
    const ended = endAsks(openAsks(state), "cancel");
    return { kind: "events", events: [requested, ...ended], stops: mode === "stop" };
  }
  return { kind: "events", events: [requested, settledEvent(cancelledEnd(asked), "", at)], stops: true };
};
