import type { EventData } from "../../../protocol/event/event.ts";
import { type Dispatched, isRunning, type MissionState } from "../../state/mission.ts";

/**
 * The verdict on the whole of a Mission for which nobody gave checks. A Task of the service's own gives it, in a
 * session that did not plan. The Mission is done only when that Task has ended.
 */

/** The built-in rules, whose Missions are not judged: nobody could judge more than the rules do. */
const rules = "builtin/rules-1";

/** Whether there is something for a model to judge, and the caller wants a verdict. */
export const isJudged = (state: MissionState): boolean =>
  state.checks.length === 0 &&
  !state.unchecked &&
  state.model !== rules &&
  state.tasks.some(({ merge, ends }) => merge === undefined && ends.some(({ landedCommit }) => landedCommit !== null));

/** The reason shown while the whole is being judged. */
export const judgingText = "A session that did not plan it judges the whole";

/** The Task that judges now; undefined: none has begun. */
export const judgeTaskOf = ({ tasks }: MissionState): Dispatched | undefined =>
  tasks.findLast((task) => task.judges !== undefined && isRunning(task));

/** The verdict on this commit by a session that knew everything people had said; undefined: there is none. */
export const verdictOn = ({ verdict, words }: MissionState, commit: string): MissionState["verdict"] | undefined =>
  verdict?.commit === commit && verdict.heard === words ? verdict : undefined;

export const isVerdict = ({ tasks }: MissionState, taskID: string): boolean =>
  tasks.some((task) => task.taskID === taskID && task.judges !== undefined);

/**
 * The fold after the end of a Task that judged: without a verdict, the result is inconclusive. undefined: the Task is
 * no judge.
 */
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
