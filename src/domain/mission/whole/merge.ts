import type { EventData } from "../../../protocol/event/event.ts";
import { isRunning, type MissionState } from "../../state/mission.ts";

/** The merge of the branch of a Mission in a directory, by a Task of the service's own. */

/** Whether all work lands on the Mission's own branch, in the repository of a directory. */
export const hasOwnBranch = ({ landing, repository }: Pick<MissionState, "landing" | "repository">): boolean =>
  landing === "branch" && repository === null;

/**
 * The short name of the branch on which the Mission's Tasks land, in the project's repository or at the remote; null:
 * it has none (yet).
 */
export const branchOf = ({ repository, branch }: Pick<MissionState, "repository" | "branch">): string | null =>
  branch?.name ?? repository?.branch ?? null;

/**
 * Whether the Mission is done and its work is to be merged without anybody asking. A merge that failed is not begun
 * again.
 */
export const isMergeDue = (state: MissionState): boolean =>
  state.finished?.outcome === "done" &&
  state.merge === "auto" &&
  hasOwnBranch(state) &&
  state.unmerged &&
  state.mergeProblem === null &&
  !state.tasks.some(isRunning);

export const isMerge = ({ tasks }: MissionState, taskID: string): boolean =>
  tasks.some((task) => task.taskID === taskID && task.merge !== undefined);

/** The fold after a dispatch: a merge includes everything that has landed by then. */
export const afterDispatch = (
  { branch, unmerged, mergeProblem }: MissionState,
  { merge }: EventData["task.dispatched"],
): Pick<MissionState, "branch" | "unmerged" | "mergeProblem"> =>
  merge === undefined
    ? { branch: branch && { ...branch, used: true }, unmerged, mergeProblem }
    : { branch, unmerged: false, mergeProblem: null };

/** The fold after a Task's end. The end of a merge is no news for the Mission's agent, whose work is done. */
export const afterEnd = (
  state: MissionState,
  { taskID, outcome, landedCommit, error }: EventData["task.ended"],
): Partial<MissionState> => {
  if (!isMerge(state, taskID)) return landedCommit !== null && hasOwnBranch(state) ? { unmerged: true } : {};
  return outcome === "completed"
    ? { mergeProblem: null, unmerged: false }
    : { mergeProblem: error ?? `its Task was ${outcome}`, unmerged: true };
};
