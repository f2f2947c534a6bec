import { commitMessage } from "../../domain/task/commit-text.ts";
import type { TurnFailure } from "../../protocol/event/conversation.ts";
import type { EventData } from "../../protocol/event/event.ts";
import { isTooLarge } from "../../workspace/tree/commit.ts";
import type { Prepared } from "../../workspace/workspace.ts";
import type { Run } from "../run.ts";
import { deniedIn } from "./denied.ts";
import { descriptionOf } from "./describe.ts";
import { keepCheckpoint } from "../checkpoint.ts";

/**
 * Commits the tree on disk to the Task's branch and records it, together with the changes in it that a rule forbids.
 * When the tree equals the base, the base itself is recorded. Resolves to the failure, with nothing recorded, when
 * files had to be left out because the Task has exceeded its disk space: nobody may take an incomplete commit for the
 * whole.
 */
export const commitTree = async (run: Run): Promise<TurnFailure | undefined> => {
  const workspace = await run.workspace();
  const { baseCommit, baseTree } = workspace.prepared;
  if (baseCommit === null || baseTree === null) throw new Error("Expected a worktree with a base commit to commit in.");
  using _still = await run.checkpoints.hold();
  using _slot = await run.slot();
  // The caller of a cancel waits for the end, so files that git cannot read in time are not waited for.
  const idleMs = run.state().cancel === null ? undefined : 2000;
  const message = await messageFor(run);
  const made = await workspace.commit(message, idleMs);
  const { mergeOf, landings } = run.state();
  const commit =
    made === undefined || mergeOf === null || landings.length > 0
      ? made
      : await run.workspaces.withMergedSettings(workspace, made, mergeOf.commit, message);
  const failure = commit?.omitted.some(isTooLarge) === true ? await run.bound.failure(true) : undefined;
  if (failure !== undefined) return failure;
  const denied = commit === undefined ? [] : await deniedIn(run, workspace, commit);
  await run.record([{ type: "tree.committed", data: commit ?? unchanged(workspace.prepared) }, ...denied]);
  await keepCheckpoint(run);
  return undefined;
};

/** What is recorded when nothing has changed: the base itself. */
export const unchanged = ({ baseCommit, baseTree }: Prepared): EventData["tree.committed"] => {
  if (baseCommit === null || baseTree === null) throw new Error("Expected a base, got none.");
  const nothing = { files: 0, insertions: 0, deletions: 0, omitted: [] };
  return { commit: baseCommit, tree: baseTree, parent: baseCommit, ...nothing };
};

/** The commit message: the description of the change, and trailers that identify Task, Mission, phase and squad. */
export const messageFor = async (run: Run): Promise<string> => {
  const { taskID, mission, mergeOf, squad } = run.state();
  return commitMessage(await descriptionOf(run), [
    ["Task", taskID],
    ...(mission === null
      ? []
      : [["Mission", mission.missionID] as const, ...(mergeOf === null ? [["Phase", mission.phase] as const] : [])]),
    ["Squad", `${squad.id}@${squad.version}`],
  ]);
};
