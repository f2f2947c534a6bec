import { findRepetition } from "../session/repetition.ts";
import { waitsUntil } from "../session/ask.ts";
import { isRead } from "../state/stream.ts";
import { stopReason } from "./budget.ts";
import { isRunning, type MissionState } from "../state/mission.ts";

/**
 * What a Mission does next, from its facts alone. There is no resume path; whoever folds the log goes on. It sleeps
 * without cost while its Tasks run.
 */

export type MissionStep =
  /** Open calls of an earlier run. */
  | { kind: "recover" }
  /** Every open call waits for an answer. */
  | { kind: "ask"; until: string }
  /** The provider's quota is used up: nothing until the due mark. */
  | { kind: "wait" }
  /** A cap over the tree is reached, and nobody was told. */
  | { kind: "pause"; reached: NonNullable<ReturnType<typeof stopReason>> }
  /** Its agent stopped without `finish` and with nothing under way. */
  | { kind: "remind" }
  /** It makes the same calls with the same results again and again. */
  | { kind: "circle"; times: number }
  /** A cap in USD, and a model whose price nobody knows. */
  | { kind: "unpriced" }
  | { kind: "turn" }
  /** Nothing until a wake, a Task's end, or `until`. */
  | { kind: "sleep"; until: string | null };

/** The same turns with the same results as often as this, and it is asked no more. */
const loopRepeats = 8;

export const nextStep = (state: MissionState): MissionStep => {
  const asleep: MissionStep = { kind: "sleep", until: state.finished?.wakeAt ?? null };
  if (state.aborted !== null) return { kind: "sleep", until: null };
  if (state.open.length > 0) {
    const until = waitsUntil(state);
    if (until !== undefined) return { kind: "ask", until };
    return state.deferred === null ? { kind: "recover" } : { kind: "wait" };
  }
  const unread = !isRead(state);
  const midway = state.reply?.finish === "calls" || state.reply?.finish === "length";
  if (!unread && (!midway || state.finished !== null)) {
    if (state.reply?.failure || state.finished !== null || state.reminded) return asleep;
    return isStranded(state) ? { kind: "remind" } : asleep;
  }
  const reached = stopReason(state);
  if (reached !== undefined) return state.paused === null ? { kind: "pause", reached } : asleep;
  if (state.cap?.maxCostUSD !== undefined && state.usage.costUSD === null) return { kind: "unpriced" };
  if (state.deferred !== null) return { kind: "wait" };
  const found = unread ? undefined : findRepetition(state.repetition, loopRepeats);
  return found === undefined ? { kind: "turn" } : { kind: "circle", times: found.times };
};

/** It has a plan, nothing under way that would wake it, and has not said how the Mission ends. */
const isStranded = (state: MissionState): boolean => state.plan.length > 0 && !state.tasks.some(isRunning);

/** Whether the head in the store has to be held or due. */
export const isAwake = (state: MissionState): boolean => nextStep(state).kind !== "sleep";

/** Whether its own agent works now: not while it waits for an answer, or for a quota. */
export const agentStatus = (state: MissionState): "running" | "inactive" => {
  const { kind } = nextStep(state);
  return kind === "sleep" || kind === "ask" || kind === "wait" ? "inactive" : "running";
};
