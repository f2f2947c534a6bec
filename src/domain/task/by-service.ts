import type { TurnFailure } from "../../protocol/event/conversation.ts";
import { isActive, type TaskState } from "../state/task.ts";
import { type Description, namedPaths } from "./commit-text.ts";

/**
 * Tasks that the service carries out itself: a revert takes back what another Task landed, a merge brings in the branch
 * of a Mission.
 */

/** The commits that can be reverted, newest first, or the reason why there are none. */
export const revertibleOf = (state: TaskState): { commits: string[] } | { reason: string } => {
  const { isolation, landing, landings, production, onto } = state;
  if (isActive(state)) return { reason: "it is running" };
  if (production !== null) return { reason: "it created a squad, which is removed as one: sortie squad remove" };
  if (isolation === "directory") return { reason: "it worked in place, so there is no commit to revert" };
  if (landing === "branch") return { reason: "its work is only on its own branch, not on a branch of the project" };
  const commits = landings.filter(({ ref }) => !ref.startsWith(ownBranches)).map(({ commit }) => commit);
  if (commits.length > 0) return { commits: commits.toReversed() };
  return {
    reason:
      landings.length === 0
        ? "it landed nothing"
        : onto !== null
          ? "its work is on the branch of its Mission, not on a branch of the project"
          : "the project had no branch checked out, so its work is only on its own branch",
  };
};

const ownBranches = "refs/heads/sortie/";

/** The text of a refusal, and of the error of a Task whose revert no longer applied when it ran. */
export const notRevertibleText = (what: string, reason: string, paths: readonly string[]): string =>
  `${what} cannot be reverted: ${reason}${paths.length === 0 ? "" : `: ${namedPaths(paths)}`}.`;

export const notRevertible = (
  title: string,
  { reason, paths }: { reason: string; paths: readonly string[] },
): TurnFailure => ({
  code: "not_revertible",
  message: `${notRevertibleText(`"${title}"`, reason, paths)} Nothing was changed.`,
  retryable: false,
  remedy: "Send a message that says how to undo it by hand; the Task's agents read it.",
});

/** The request of a revert. Its agents read it only if somebody writes to the Task. */
export const revertRequest = (title: string, taskID: string, commits: readonly string[]): string =>
  `Revert "${title}"

Undo what the Task ${taskID} landed as ${commits.join(", ")}, and keep later changes. The service does this itself, like \`git revert\`.`;

/** The message of the reverting commit. */
export const revertDescription = (title: string, commits: readonly string[]): Description => ({
  title: `Revert "${title}"`,
  body: commits.map((commit) => `This reverts commit ${commit}.`).join("\n\n"),
});

// ---- Merges ----------------------------------------------------------------------------------------------------------

type Merge = Pick<NonNullable<TaskState["mergeOf"]>, "branch" | "title" | "commit">;

/** The request of a merge. Its agents read it only if the merge leaves something for them to do. */
export const mergeRequest = ({ branch, title, commit }: Merge, into: string): string =>
  `Merge ${branch} into ${into}

${branch} (${commit}) has the work of the Mission "${title}", whose Tasks landed there one after the other. The service merges it itself, like \`git merge\`. What is left to you is what stands in the way of that, and nothing else.`;

export const mergeDescription = ({ branch, title }: Merge): Description => ({
  title: `Merge ${branch}`,
  body: title,
});
