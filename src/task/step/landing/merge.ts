import { branchName } from "../../../domain/task/landing.ts";
import { baseSide, projectSide, taskSide } from "../../../workspace/rebase/conflict.ts";
import type { Run } from "../../run.ts";
import { messageFor, unchanged } from "../../workspace/commit.ts";
import { messageFromService } from "../message.ts";
import { namedPaths } from "../../../domain/task/commit-text.ts";
import { fail } from "./land.ts";

/**
 * Merges the branch of a Mission onto the base of this Task, and commits the result like an agent's work: the same
 * rules, checks and landing apply. Records `tree.committed` or `landing.conflicted`; if the run dies before that, the
 * next one merges again. `retries`: whether this Task's model may resolve a conflict.
 */
export const merge = async (run: Run, retries: boolean): Promise<void> => {
  const { mergeOf, onto } = run.state();
  if (mergeOf === null || onto === null) throw new Error("Expected a Task that merges a branch.");
  const workspace = await run.workspace();
  const merged = await run.workspaces.merge(workspace, mergeOf.commit, await messageFor(run), retries);
  const into = branchName(onto);
  if (merged.ok) {
    await run.record([{ type: "tree.committed", data: merged.commit ?? unchanged(workspace.prepared) }]);
    return;
  }
  if (merged.marked === undefined) {
    await fail(run, {
      code: "landing_conflict",
      message: `${mergeOf.branch} cannot be merged automatically: ${into} has changed the same places in ${namedPaths(merged.paths)}. Nothing was changed.`,
      retryable: false,
      remedy: `Run: git merge ${mergeOf.branch} — or send a message that says how the two go together; this Task's agents read it.`,
    });
    return;
  }
  const { paths, said, baseCommit, baseTree, commit, tree } = merged.marked;
  const data = { round: run.state().landingRound + 1, paths: paths.slice(0, 500), baseCommit, baseTree, commit, tree };
  const text = conflictText({ ...mergeOf, into }, paths, said);
  await run.record([{ type: "landing.conflicted", data }, await messageFromService(run, "landing", text)]);
  run.forgetWorkspace();
};

const conflictText = (
  { branch, title, into }: { branch: string; title: string; into: string },
  paths: readonly string[],
  said: readonly string[],
): string => `${branch} could not be merged into ${into} automatically: both changed the same places in ${namedPaths(paths)}. Your change is what the Mission "${title}" has done on its branch; the project is ${into} as it is at this moment.

Your workspace holds ${into} with the branch merged. Where both sides changed the same lines, the file has both versions, and between them what stood there before:

<<<<<<< ${projectSide}
what the project has
||||||| ${baseSide}
what both sides changed
=======
what the branch has
>>>>>>> ${taskSide}
${said.length === 0 ? "" : `\nConflicts that no marker shows:\n${said.map((line) => `- ${line}`).join("\n")}\n`}
Read each of these files. Make one version that keeps what both sides want, and remove the marker lines. A line that is only in the middle, or in the middle and on one side, was taken away by the other side: leave it out. Change nothing else.

When you are done, say so. The checks run, and the merge lands.`;
