import type { EventData } from "../../../protocol/event/event.ts";
import { baseSide, projectSide, taskSide } from "../../../workspace/rebase/conflict.ts";
import type { MarkedRebase, Workspace } from "../../../workspace/workspace.ts";
import type { Run } from "../../run.ts";
import { baseOf } from "../../workspace/repository.ts";
import { messageFor } from "../../workspace/commit.ts";
import { keepSnapshot } from "../../workspace/open.ts";
import { namedPaths } from "../../../domain/task/commit-text.ts";
import { messageFromService } from "../message.ts";

/** Reports a conflict with the project to the agent, with both sides in the files. */

export type Conflict = {
  /**
   * `moved`: the branch has other commits. `edited`: the user's files have uncommitted edits. `unresolved`: conflict
   * markers of an earlier round are left.
   */
  kind: "moved" | "edited" | "unresolved";
  paths: string[];
};

/**
 * Puts both sides into the files and reports the conflict. Resolves to the paths that are in the way in the project and
 * that Git does not show, in which case nothing was changed; otherwise to an empty list.
 */
export const returnConflict = async (run: Run, workspace: Workspace, conflict: Conflict): Promise<string[]> => {
  const { tree, landingRound, workspace: prepared } = run.state();
  const round = landingRound + 1;
  if (tree === null || prepared?.baseCommit == null || prepared.baseTree === null) return [];
  if (conflict.kind === "unresolved") {
    const { baseCommit, baseTree, snapshot } = prepared;
    const { commit, tree: treeID } = tree;
    const same = { baseCommit, baseTree, commit, tree: treeID, ...(snapshot === undefined ? {} : { snapshot }) };
    await record(run, { round, paths: run.state().conflicts, ...same }, unresolvedText(run, round, conflict.paths));
    return [];
  }
  const dirty = conflict.kind === "edited" ? conflict.paths : [];
  const renewed = await run.workspaces.rebaseWithMarkers(workspace, tree, await messageFor(run), dirty);
  if (!renewed.ok) return renewed.paths;
  const { paths, baseCommit, baseTree, commit, tree: treeID, snapshot } = renewed;
  const base = { baseCommit, baseTree, commit, tree: treeID };
  const seen = snapshot === undefined ? {} : { snapshot: await keepSnapshot(run, snapshot) };
  await record(run, { round, paths: paths.slice(0, 500), ...base, ...seen }, conflictText(run, round, renewed));
  run.forgetWorkspace();
  return [];
};

/** Recorded without `decidedAt`: the files have changed already, so the event must not be lost. */
const record = async (run: Run, data: EventData["landing.conflicted"], text: string): Promise<void> => {
  const whole = { ...data, ...baseOf(run, data.baseCommit) };
  await run.record([{ type: "landing.conflicted", data: whole }, await messageFromService(run, "landing", text)]);
};

/** A report without `Commit:` would be taken for an answer, so that the earlier report would stay. */
const whenDone =
  "The checks run again when you are done, and landing is tried again. Your last message then is the report of the whole work as it is now, in place of the one before, and ends with `Commit:` as before.";

const conflictText = (run: Run, round: number, renewed: Extract<MarkedRebase, { ok: true }>): string => {
  const { paths, said, uncommitted, theirs } = renewed;
  const work =
    uncommitted.length === 0
      ? ""
      : `\n\nIn ${namedPaths(uncommitted)} the project's side is work in progress of the user's, not committed yet. Leave those lines exactly as they are and put your change beside them: a change that rewrites or needs uncommitted lines cannot land.`;
  return `Your change could not land: while you worked, the project changed the same places in ${namedPaths(paths)} (round ${round} of ${run.limits.landingRounds}).

Your workspace now holds the project as it is at this moment, with your change put on top of it. Where both sides changed the same lines, the file has both versions, and between them what stood there before:

<<<<<<< ${projectSide}
what the project has
||||||| ${baseSide}
what both sides changed
=======
what you wrote
>>>>>>> ${taskSide}
${said.length === 0 ? "" : `\nConflicts that no marker shows:\n${said.map((line) => `- ${line}`).join("\n")}\n`}
Read each of these files. Make one version that keeps what the project's side wants and does what you were asked to do, and remove the marker lines. A line that is only in the middle, or in the middle and on one side, was taken away by the other side: leave it out. Change nothing else.${work}

What the project changed there since you began:

\`\`\`diff
${theirs.trimEnd()}
\`\`\`

${whenDone}`;
};

const unresolvedText = (run: Run, round: number, paths: readonly string[]): string =>
  `Your change could not land: conflict markers (lines that begin with <<<<<<<, |||||||, ======= or >>>>>>>) still stand in ${namedPaths(paths)} (round ${round} of ${run.limits.landingRounds}). Open each of these files, make one version of both sides, and remove the marker lines.

${whenDone}`;
