import { isRunning, type MissionState } from "../state/mission.ts";
import { isPlanDue } from "./approval.ts";
import { phaseState } from "./plan.ts";

/**
 * Whether the newest reply ends the turn by itself. One whose calls gave work to Tasks, and otherwise wrote down what
 * its agent knows, leaves it nothing to do until something happens, so it is not asked whether it has more to say.
 */

const handing: ReadonlySet<string> = new Set(["dispatch", "produce_squad", "task_message", "task_answer"]);

/** Their results say nothing that whoever called them does not know. */
const written: ReadonlySet<string> = new Set(["phase", "remember", "task_cancel"]);

type Ended = { tool: string; outcome: string };

/**
 * Of a reply's calls that have ended: true, once one of them gave a Task something to do; false, for good, once one has
 * a result that its agent has yet to read; null before either.
 */
export const handedOnWith = (before: boolean | null, { tool, outcome }: Ended): boolean | null => {
  if (before === false || outcome !== "ok") return false;
  if (handing.has(tool)) return true;
  return written.has(tool) ? before : false;
};

/** The same of all its calls. */
export const handsOn = (results: readonly Ended[]): boolean =>
  results.reduce<boolean | null>(handedOnWith, null) === true;

/**
 * It goes on where nothing would resume it, where a Task waits for its answer, and where a phase could begin: models
 * that make one call at a time would otherwise do one phase after another. None can, before a person has approved the
 * plan.
 */
export const endsTurn = (state: MissionState): boolean =>
  state.handedOn === true &&
  state.questions.length === 0 &&
  state.tasks.some(isRunning) &&
  (isPlanDue(state) || !state.plan.some((phase) => phaseState(state, phase) === "ready"));
