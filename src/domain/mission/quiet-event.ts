import type { EventData } from "../../protocol/event/event.ts";
import { isRunning, type MissionState } from "../state/mission.ts";
import { askedPlan, isPlanDue } from "./approval.ts";
import { isMerge } from "./whole/merge.ts";
import { isVerdict } from "./whole/verdict.ts";

/**
 * Events that give a Mission's agent nothing to do. They do not wake it, and it reads them with the next event that
 * does: a model request reads the tools, the prompt and the whole state, only to answer that it waits.
 */

/**
 * Whether the end of a Task does not wake the agent. This is so for a merge, for a verdict unless something is missing,
 * for a Task that the agent itself withdrew, and for a completed Task while the plan waits for approval, without which
 * the agent may not continue.
 */
export const doesNotWake = (state: MissionState, end: EventData["task.ended"]): boolean =>
  isMerge(state, end.taskID) ||
  (isVerdict(state, end.taskID) && end.verdict?.verdict !== "rejected") ||
  isWithdrawn(state, end) ||
  (end.outcome === "completed" && !isVerdict(state, end.taskID) && waitsForPlan(state));

/**
 * Whether a person's change of the plan does not wake the agent, because the plan still has to be approved: the answer
 * to the approval will wake it.
 */
export const isQuietEdit = (state: MissionState): boolean =>
  isPlanDue(state) && state.finished?.outcome !== "done" && state.judging === null;

/** Whether the plan waits for a person's approval, without which nothing is dispatched. The answer wakes the agent. */
export const waitsForPlan = (state: MissionState): boolean => askedPlan(state) !== undefined;

/**
 * Whether the Task was cancelled after its phase was dropped, while something else will wake the agent, or the agent
 * has declared the Mission done.
 */
const isWithdrawn = (state: MissionState, { taskID, phase, outcome }: EventData["task.ended"]): boolean =>
  outcome === "cancelled" &&
  !state.plan.some(({ id }) => id === phase) &&
  (state.finished?.outcome === "done" ||
    state.judging !== null ||
    isPlanDue(state) ||
    state.tasks.some((task) => task.taskID !== taskID && isRunning(task)));

/** Whether a phase could be begun, or begun again, so that an approval of the plan is news for the agent. */
export const canBegin = (states: readonly string[]): boolean =>
  states.some((state) => state === "ready" || state === "failed" || state === "cancelled");
