import type { Recorded } from "../event.ts";
import type { EventData } from "../../protocol/event/event.ts";
import { isActive, type Landed, staysOnBranch, type TaskState } from "../state/task.ts";
import { newAttempt } from "./attempt.ts";

/** What of a Task landed, attempt by attempt. */

/** A branch's short name, of this repository or of the remote that it mirrors. */
export const branchName = (ref: string): string => ref.replace(/^refs\/(heads|remotes\/(origin|filled))\//, "");

/** What landed, as its project has it. */
export const landedAs = ({ commit, pushed }: Pick<EventData["landing.finished"], "commit" | "pushed">): string =>
  pushed ?? commit;

/** A result on the Task's own branch replaces the one that was there before: it is the same change, taken further. */
export const withLanding = (
  state: TaskState,
  { data, at, version }: Recorded & { type: "landing.finished" },
): TaskState["landings"] => {
  const { landings, tree } = state;
  const { tree: treeID, ref } = data;
  const commit = landedAs(data);
  const diffStat = tree && { files: tree.files, insertions: tree.insertions, deletions: tree.deletions };
  const others = landings.filter((landing) => !(landing.ref === ref && staysOnBranch(state)));
  return [...others, { commit, tree: treeID, ref, diffStat, at, version }];
};

/** What landed is pushed, and its pull request not opened or not brought up to date with it yet. */
export const isProposalDue = ({ landing, landed, pullRequest }: TaskState): boolean =>
  landing === "pull-request" && landed !== null && pullRequest?.commit !== landedAs(landed);

/** A follow-up begins: what became of the pull request since, nobody has asked yet. */
export const isProposalUnseen = ({ pullRequest, pushed, attempt }: TaskState): boolean =>
  pullRequest !== null && pushed !== null && pullRequest.seenIn < attempt;

/** What was merged is in the base by now, and its branch is done with: the rest is a change of its own, on a new base. */
export const afterMerge = ({ pullRequest, pushed }: Pick<TaskState, "pullRequest" | "pushed">): boolean =>
  pullRequest?.state === "merged" && pushed !== null;

export const withProposal = (state: TaskState, data: EventData["landing.proposed"]): TaskState => {
  const pullRequest = { ...data, seenIn: state.attempt };
  return afterMerge({ ...state, pullRequest }) && isActive(state) && state.landed === null
    ? { ...state, ...newAttempt, workspace: null, pushed: null, pullRequest }
    : { ...state, pullRequest };
};

export const pullRequestOf = ({ pullRequest }: TaskState) =>
  pullRequest && { url: pullRequest.url, number: pullRequest.number, state: pullRequest.state };

export const landingsOf = ({ landings }: TaskState) =>
  landings.map(({ commit, tree, ref, diffStat, at }: Landed) => ({
    commit,
    tree,
    branch: branchName(ref),
    diffStat,
    at,
  }));
