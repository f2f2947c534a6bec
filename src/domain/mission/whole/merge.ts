import type { EventData } from "../../../protocol/event/event.ts";
import { isRunning, type MissionState } from "../../state/mission.ts";

/** Merging the branch of a Mission in a directory, by a Task of the service's own. */

/** All of it lands on a branch of the Mission's, in the repository of a directory. */
export const hasOwnBranch = ({ landing, repository }: Pick<MissionState, "landing" | "repository">): boolean =>
  landing === "branch" && repository === null;

/**
 * The short name of the branch on which its Tasks land, of the project's repository or of the remote; null: it has none
 * (yet).
 */
export const branchOf = ({ repository, branch }: Pick<MissionState, "repository" | "branch">): string | null =>
  branch?.name ?? repository?.branch ?? null;

/**
 * It is done, and what landed is to be merged without anybody asking. A merge that came to nothing is not begun again.
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

/** The fold after a dispatch: a merge takes all that has landed by then. */
export const afterDispatch = (
  { branch, unmerged, mergeProblem }: MissionState,
  { merge }: EventData["task.dispatched"],
): Pick<MissionState, "branch" | "unmerged" | "mergeProblem"> =>
  merge === undefined
    ? { branch: branch && { ...branch, used: true }, unmerged, mergeProblem }
    : { branch, unmerged: false, mergeProblem: null };

/** The fold after a Task's end. A merge that ends is no news for the Mission's agent: it is done. */
export const afterEnd = (
  state: MissionState,
  { taskID, outcome, landedCommit, error }: EventData["task.ended"],
): Partial<MissionState> => {
  if (!isMerge(state, taskID)) return landedCommit !== null && hasOwnBranch(state) ? { unmerged: true } : {};
  return outcome === "completed"
    ? { mergeProblem: null, unmerged: false }
    : { mergeProblem: error ?? `its Task was ${outcome}`, unmerged: true };
};
