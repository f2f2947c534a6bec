import { isRunning, type MissionState } from "../state/mission.ts";
import { phaseState } from "./plan.ts";

/**
 * Whether the newest reply ends the turn by itself. One whose calls all gave work to Tasks leaves its agent nothing to do
 * until something happens, so it is not asked whether it has more to say.
 */

const handing: ReadonlySet<string> = new Set(["dispatch", "produce_squad", "task_message", "task_answer"]);

/** Whether the call gave a Task something to do. */
export const handsOn = ({ tool, outcome }: { tool: string; outcome: string }): boolean =>
  outcome === "ok" && handing.has(tool);

/**
 * It goes on where nothing would resume it, where a Task waits for its answer, and where a phase could begin: models that
 * make one call at a time would otherwise do one phase after another.
 */
export const endsTurn = (state: MissionState): boolean =>
  state.handedOn &&
  state.questions.length === 0 &&
  state.tasks.some(isRunning) &&
  !state.plan.some((phase) => phaseState(state, phase) === "ready");
