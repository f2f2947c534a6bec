import type { EventData } from "../../protocol/event/event.ts";
import { isRunning, type MissionState } from "../state/mission.ts";
import { askedPlan, isPlanDue } from "./approval.ts";
import { isMerge } from "./whole/merge.ts";
import { isVerdict } from "./whole/verdict.ts";

/**
 * What gives a Mission's agent nothing to do. It does not wake it, and is read with the next thing that does: a request
 * reads its tools, its prompt and the whole state, to say that it waits.
 */

/**
 * A Task's end: of a merge, of a verdict unless something is missing, and what the agent itself has withdrawn or may
 * not go on from.
 */
export const isQuiet = (state: MissionState, end: EventData["task.ended"]): boolean =>
  isMerge(state, end.taskID) ||
  (isVerdict(state, end.taskID) && end.verdict?.verdict !== "rejected") ||
  isWithdrawn(state, end) ||
  (end.outcome === "completed" && !isVerdict(state, end.taskID) && waitsForPlan(state));

/** A person's change of the plan that a person approves before anything comes of it: the answer wakes the agent. */
export const isQuietEdit = (state: MissionState): boolean =>
  isPlanDue(state) && state.finished?.outcome !== "done" && state.judging === null;

/** The plan waits for a person's word, without which nothing is dispatched. Their answer wakes the agent. */
export const waitsForPlan = (state: MissionState): boolean => askedPlan(state) !== undefined;

/**
 * Cancelled, of a phase that was dropped; and something is left that its agent will hear of, or it has said that it is
 * done.
 */
const isWithdrawn = (state: MissionState, { taskID, phase, outcome }: EventData["task.ended"]): boolean =>
  outcome === "cancelled" &&
  !state.plan.some(({ id }) => id === phase) &&
  (state.finished?.outcome === "done" ||
    state.judging !== null ||
    isPlanDue(state) ||
    state.tasks.some((task) => task.taskID !== taskID && isRunning(task)));

/** A phase could be begun, or begun again: an approval of the plan is news. */
export const canBegin = (states: readonly string[]): boolean =>
  states.some((state) => state === "ready" || state === "failed" || state === "cancelled");
