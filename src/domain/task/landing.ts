import type { Recorded } from "../event.ts";
import type { EventData } from "../../protocol/event/event.ts";
import { isRead } from "../state/stream.ts";
import { isActive, type Landed, remoteOf, staysOnBranch, type TaskState } from "../state/task.ts";
import { freshWorkspaceFields } from "./attempt.ts";

/** The landing in a Task's fold: from the first look at the branch to the pull request, with every landing recorded. */

/** The short name of a branch of this repository or of the remote that it mirrors. */
export const branchName = (ref: string): string => ref.replace(/^refs\/(heads|remotes\/(origin|filled))\//, "");

/** The landed commit as the project has it: as pushed to the remote, where that is another commit. */
export const publishedCommit = ({ commit, pushed }: Pick<EventData["landing.finished"], "commit" | "pushed">): string =>
  pushed ?? commit;

/**
 * Adds a landing. One on the Task's own branch replaces the earlier one there: it is the same change, taken further.
 */
const withLanding = (
  state: TaskState,
  { data, at, version }: Recorded & { type: "landing.finished" },
): TaskState["landings"] => {
  const { landings, tree } = state;
  const { tree: treeID, ref } = data;
  const commit = publishedCommit(data);
  const diffStat = tree && { files: tree.files, insertions: tree.insertions, deletions: tree.deletions };
  const others = landings.filter((landing) => !(landing.ref === ref && staysOnBranch(state)));
  return [...others, { commit, tree: treeID, ref, diffStat, at, version }];
};

/** Whether the pull request is still to be opened, or to be updated to what was pushed last. */
export const isProposalDue = ({ landing, landed, pullRequest }: TaskState): boolean =>
  landing === "pull-request" && landed !== null && pullRequest?.commit !== publishedCommit(landed);

/** Whether a follow-up attempt has not yet asked the forge what became of the pull request. */
export const isPullRequestStale = ({ pullRequest, pushed, attempt }: TaskState): boolean =>
  pullRequest !== null && pushed !== null && pullRequest.seenIn < attempt;

/**
 * Whether the pull request was merged: the base now contains it and its branch is finished. Further work is a change of
 * its own, on a new base.
 */
export const afterMerge = ({ pullRequest, pushed }: Pick<TaskState, "pullRequest" | "pushed">): boolean =>
  pullRequest?.state === "merged" && pushed !== null;

const withProposal = (state: TaskState, data: EventData["landing.proposed"]): TaskState => {
  const pullRequest = { ...data, seenIn: state.attempt };
  return afterMerge({ ...state, pullRequest }) && isActive(state) && state.landed === null
    ? { ...state, ...freshWorkspaceFields, workspace: null, pushed: null, pullRequest }
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

type LandingEvent = Recorded & {
  type:
    | "workspace.rebased"
    | "landing.conflicted"
    | "landing.started"
    | "landing.withdrawn"
    | "landing.finished"
    | "landing.proposed";
};

/** Folds in one event of a landing, from the first look at the branch to the pull request. */
export const evolveLanding = (state: TaskState, event: LandingEvent): TaskState => {
  switch (event.type) {
    case "workspace.rebased":
      return {
        ...state,
        workspace: state.workspace && moved(state.workspace, event.data),
        tree: state.tree && {
          ...state.tree,
          commit: event.data.commit,
          tree: event.data.tree,
          parent: event.data.baseCommit,
        },
        contrast:
          state.contrast !== null && state.contrast.tree === state.tree?.tree
            ? { ...state.contrast, tree: event.data.tree }
            : state.contrast,
        unlandable: event.data.left ?? state.unlandable,
        moves: state.moves + 1,
      };
    case "landing.conflicted": {
      const { snapshot, paths, round } = event.data;
      return {
        ...state,
        workspace: state.workspace && based(seenAs(state.workspace, snapshot), event.data),
        tree: null,
        touched: true,
        writes: state.writes + 1,
        mergeOf: state.mergeOf && { ...state.mergeOf, tried: true },
        landingRound: round,
        moves: 0,
        conflicts: paths,
        conflictedAt: state.edits,
        unlandable: [],
      };
    }
    case "landing.started":
      return { ...state, landingStarted: event.data };
    case "landing.withdrawn":
      return {
        ...state,
        landingStarted: null,
        moves: event.data.edited === undefined ? state.moves : state.moves + 1,
      };
    case "landing.finished":
      // A result on the Task's own branch changed no branch of the user's: if a message is unread, the work simply
      // continues.
      return staysOnBranch(state) && !isRead(state)
        ? { ...state, landingStarted: null, landed: null, pushed: pushedBy(state, event.data) }
        : {
            ...state,
            landingStarted: null,
            landed: event.data,
            pushed: pushedBy(state, event.data),
            landings: withLanding(state, event),
          };
    case "landing.proposed":
      return withProposal(state, event.data);
  }
};

const pushedBy = (state: TaskState, data: EventData["landing.finished"]): TaskState["pushed"] =>
  remoteOf(state) === null ? null : { ref: data.ref, commit: publishedCommit(data) };

type Place = EventData["workspace.prepared"];

/**
 * After a rebase onto the branch's own commit, the snapshot has nothing beyond the base, but still lists the omitted
 * files.
 */
const moved = (place: Place, data: EventData["workspace.rebased"]): Place => ({
  ...based(place, data),
  ...(place.snapshot === undefined ? {} : { snapshot: { ...place.snapshot, head: data.baseCommit } }),
});

const based = (
  { of: _before, ...place }: Place,
  { baseCommit, baseTree, of }: Pick<EventData["workspace.rebased"], "baseCommit" | "baseTree" | "of">,
): Place => ({ ...place, baseCommit, baseTree, ...(of === undefined ? {} : { of }) });

const seenAs = (place: Place, snapshot: Place["snapshot"]): Place => {
  const { snapshot: before, ...rest } = place;
  return snapshot === undefined ? (before === undefined ? place : rest) : { ...rest, snapshot };
};
