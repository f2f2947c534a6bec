import type { EventData } from "../../../protocol/event/event.ts";
import { type Dispatched, isRunning, type MissionState } from "../../state/mission.ts";

/**
 * The verdict on the whole of a Mission for which nobody gave checks: by a Task of the service's own, whose session did
 * not plan. Its Mission is done when that has ended.
 */

/** Of a Mission of the built-in rules nobody could judge more than they do. */
const rules = "builtin/rules-1";

/** Whether there is something that a model could judge, and its caller wants that. */
export const isJudged = (state: MissionState): boolean =>
  state.checks.length === 0 &&
  !state.unchecked &&
  state.model !== rules &&
  state.tasks.some(({ merge, ends }) => merge === undefined && ends.some(({ landedCommit }) => landedCommit !== null));

/** What is said of it while that goes on. */
export const judgingText = "A session that did not plan it judges the whole";

/** The Task that judges now; undefined: none has begun. */
export const judgeOf = ({ tasks }: MissionState): Dispatched | undefined =>
  tasks.findLast((task) => task.judges !== undefined && isRunning(task));

/** The verdict on this commit, by somebody who knew all that people have said; undefined: there is none. */
export const verdictOn = ({ verdict, words }: MissionState, commit: string): MissionState["verdict"] | undefined =>
  verdict?.commit === commit && verdict.heard === words ? verdict : undefined;

export const isVerdict = ({ tasks }: MissionState, taskID: string): boolean =>
  tasks.some((task) => task.taskID === taskID && task.judges !== undefined);

/** The fold after the end of a Task that judged: without a verdict it could not tell. */
export const afterVerdict = (
  { tasks }: MissionState,
  { taskID, verdict, outcome, error }: EventData["task.ended"],
): Pick<MissionState, "verdict"> | undefined => {
  const task = tasks.find((one) => one.taskID === taskID);
  if (task?.judges === undefined) return undefined;
  const { callID, judges } = task;
  const said = verdict ?? { verdict: "inconclusive", notes: error ?? `its Task was ${outcome}` };
  return { verdict: { ...said, taskID, callID, commit: judges.commit, heard: judges.heard } };
};
