import { findRepetition } from "../session/repetition.ts";
import { waitsUntil } from "../session/ask.ts";
import { askedPlan, isPlanDue, planKey } from "./approval.ts";
import { endsTurn } from "./hand-on.ts";
import { isMergeDue } from "./whole/merge.ts";
import { isMidway } from "../session/session.ts";
import { isRead } from "../state/stream.ts";
import { reachedOf, stopReason } from "./budget.ts";
import { isRunning, type MissionState } from "../state/mission.ts";

/**
 * Decides what a Mission does next, from its fold alone. There is no separate resume path: whoever folds the log
 * continues. The Mission sleeps at no cost while its Tasks run.
 */

/** A step of the Mission itself, before watchers are notified of a standstill (`next.ts`). */
export type OwnStep =
  /** Deal with open calls of an earlier run. */
  | { kind: "recover" }
  /** Ask a person whether the plan may be carried out. */
  | { kind: "approve" }
  /**
   * Every open call waits for an answer, or the plan for its approval. `until`: when the first ask times out, or the
   * Mission is woken.
   */
  | { kind: "ask"; until: string }
  /** The provider's quota is used up: nothing to do until the due time. */
  | { kind: "wait" }
  /** A cap of the Mission's budget is reached, and this is not on record yet. */
  | { kind: "pause"; reached: NonNullable<ReturnType<typeof stopReason>> }
  /** Its agent stopped without `finish`, and nothing is running that would resume it. */
  | { kind: "remind" }
  /** Its agent makes the same calls with the same results again and again. */
  | { kind: "repetition"; times: number }
  /** The budget has a cap in USD, and the model's price is unknown. */
  | { kind: "unpriced" }
  /** The work in a repository is done: propose the branch as a whole. */
  | { kind: "propose" }
  /** The agent declared the Mission done: dispatch the Task that judges the whole, or record the result of that. */
  | { kind: "judge" }
  /** The Mission is done: merge its branch. */
  | { kind: "merge" }
  | { kind: "turn" }
  /** Nothing to do until a wake, a Task's end, or `until`. */
  | { kind: "sleep"; until: string | null };

/** After this many repetitions of the same turns with the same results, the agent is stopped. */
const loopRepeats = 8;

export const stepOf = (state: MissionState): OwnStep => {
  const asleep: OwnStep = { kind: "sleep", until: untilOf(state) };
  if (state.aborted !== null) return { kind: "sleep", until: null };
  if (state.open.length > 0) {
    const until = waitsUntil(state);
    if (until !== undefined) return { kind: "ask", until };
    return state.deferred === null ? { kind: "recover" } : { kind: "wait" };
  }
  const unread = !isRead(state);
  const midway = isMidway(state.reply);
  if (!unread && (!midway || state.finished !== null || state.judging !== null || endsTurn(state))) {
    if (state.judging !== null) return state.tasks.some(isRunning) ? asleep : { kind: "judge" };
    if (state.proposes) return { kind: "propose" };
    if (isMergeDue(state)) return { kind: "merge" };
    if (isPlanDue(state) && state.finished?.outcome !== "done") {
      // A person who denied the plan without words is not asked about the same plan again until the Mission gets a
      // message.
      if (state.refusedBy !== null && state.askedPlan === planKey(state)) return asleep;
      const until = askedPlan(state) && waitsUntil(state);
      if (until === undefined) return { kind: "approve" };
      const woken = untilOf(state) ?? until;
      return { kind: "ask", until: woken < until ? woken : until };
    }
    if (state.reply?.failure || state.finished !== null || state.reminded) return asleep;
    return isStranded(state) ? { kind: "remind" } : asleep;
  }
  const reached = stopReason(state);
  if (reached !== undefined) return state.paused === null ? { kind: "pause", reached } : asleep;
  // Reservations of running Tasks fill the cap. Wait: each end releases some of it.
  if (reachedOf(state) !== undefined && state.tasks.some(isRunning)) return asleep;
  if (state.cap?.maxCostUSD !== undefined && state.usage.costUSD === null) return { kind: "unpriced" };
  if (state.deferred !== null) return { kind: "wait" };
  const found = unread ? undefined : findRepetition(state.repetition, loopRepeats);
  return found === undefined ? { kind: "turn" } : { kind: "repetition", times: found.times };
};

/** The first time at which the Mission is to be woken; null: none is set. */
const untilOf = ({ finished, tasks }: MissionState): string | null =>
  [finished?.wakeAt ?? [], tasks.flatMap((task) => (isRunning(task) ? (task.lookAt ?? []) : []))].flat().sort()[0] ??
  null;

/**
 * Whether the Mission has a plan and runs no Task whose end would resume it. The caller has checked that it is not
 * finished.
 */
const isStranded = (state: MissionState): boolean => state.plan.length > 0 && !state.tasks.some(isRunning);
