import { isRunning, type MissionState } from "../state/mission.ts";
import { isPlanDue } from "./approval.ts";
import { phaseState } from "./plan.ts";

/**
 * Decides whether the newest reply ends the turn by itself. If its calls gave work to Tasks and otherwise only recorded
 * what the agent knows, the agent has nothing to do until something happens, so it is not asked whether it has more to
 * say.
 */

const handing: ReadonlySet<string> = new Set(["dispatch", "produce_squad", "task_message", "task_answer"]);

/** Tools whose results tell the agent nothing new. */
const written: ReadonlySet<string> = new Set(["phase", "remember", "task_cancel"]);

type Ended = { tool: string; outcome: string };

/**
 * Folds in one more ended call of a reply. true: a call gave a Task something to do; false, for good: a call has a
 * result that the agent has yet to read; null: neither yet.
 */
export const foldHandOff = (before: boolean | null, { tool, outcome }: Ended): boolean | null => {
  if (before === false || outcome !== "ok") return false;
  if (handing.has(tool)) return true;
  return written.has(tool) ? before : false;
};

/** Whether all calls of a reply together handed work on and left nothing to read. */
export const handsOffWork = (results: readonly Ended[]): boolean =>
  results.reduce<boolean | null>(foldHandOff, null) === true;

/**
 * Whether the turn ends here. It continues if nothing would resume the agent, if a Task waits for its answer, or if a
 * phase could begin: models that make one call at a time would otherwise do one phase after another. No phase can begin
 * before a person has approved the plan.
 */
export const endsTurn = (state: MissionState): boolean =>
  state.handedOn === true &&
  state.questions.length === 0 &&
  state.tasks.some(isRunning) &&
  (isPlanDue(state) || !state.plan.some((phase) => phaseState(state, phase) === "ready"));
