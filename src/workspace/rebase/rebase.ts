import { headOf } from "../git/repository.ts";
import { idOf } from "../git/output.ts";
import { commitOf } from "../object/commit.ts";
import { rebaseOnto } from "../object/rebase.ts";
import { branchRefOf, setRef } from "../object/ref.ts";
import { revertOnto } from "../object/revert.ts";
import { changeHash } from "../object/tree-change.ts";
import type { Workspaces } from "../workspace.ts";
import { branchOf } from "../worktree/create.ts";
import { plainSnapshot } from "../worktree/snapshot.ts";
import { unresolvedIn } from "./conflict.ts";
import { markConflicts, type Onto } from "./onto.ts";

/** Moves a Task's change onto the project's present state, and takes commits back from it. */

/** Whether a Task's result goes to the remote of a mirrored repository, where nobody edits files. */
const isMirrored = (targetRef: string | null): targetRef is string => targetRef?.startsWith("refs/remotes/") ?? false;

export const createRebases = ({
  folder,
  placeOf,
  snapshotOf,
}: Onto): Pick<Workspaces, "rebase" | "rebaseWithMarkers" | "revertible" | "revert" | "changeHash" | "unresolved"> => ({
  async rebase(workspace, commit, message) {
    const { taskID, record, git, objects } = placeOf(workspace);
    const { targetRef, snapshot } = workspace.prepared;
    const onBranch = targetRef ?? snapshot?.head;
    if (onBranch === undefined) throw new Error("Expected a branch to rebase onto, got a Task that keeps its own.");
    const snapped = snapshot !== undefined && snapshot.head !== workspace.prepared.baseCommit;
    const head = snapped ? snapshot.head : undefined;
    const onto = await idOf(objects, `${onBranch}^{commit}`);
    const rebased = await rebaseOnto({ git: objects, commit, message, onto, head });
    if (!rebased.ok) return rebased;
    const move = async () => {
      await setRef({ commonDir: record.commonDir, git: objects }, branchRefOf(branchOf(taskID)), rebased.commit);
      await git.run(["reset", "-q", "--hard", rebased.commit], { timeoutMs: 10 * 60_000 });
    };
    await folder.moveBase(taskID, rebased.baseCommit, move, { from: commit.commit });
    return rebased;
  },
  async rebaseWithMarkers(workspace, commit, message, dirty) {
    const place = placeOf(workspace);
    const { taskID, record, objects } = place;
    const { targetRef, named } = workspace.prepared;
    // Nobody edits files of the branch, so its commit is the snapshot.
    const apart = isMirrored(targetRef) || (named === true && headOf(record.projectGitDir)?.ref !== targetRef);
    const taken = apart
      ? plainSnapshot(await idOf(objects, `${targetRef}^{commit}`))
      : await snapshotOf({ taskID }, record, commit.parent);
    return markConflicts(folder, place, { taken, commit, message, dirty });
  },
  revertible: (commonDir, onto, commits) => revertOnto(folder.objectsOf("revert", { commonDir }), onto, commits),
  async revert(workspace, commits) {
    const { git, objects } = placeOf(workspace);
    const { baseCommit } = workspace.prepared;
    if (baseCommit === null) throw new Error("Expected a base to take commits back from, got none.");
    const reverted = await revertOnto(objects, baseCommit, commits);
    if (reverted.ok) {
      const commit = await commitOf(objects, reverted.tree, baseCommit, "revert");
      await git.run(["reset", "-q", "--hard", commit], { timeoutMs: 10 * 60_000 });
    }
    return reverted;
  },
  changeHash: (workspace, base, commit) => changeHash(placeOf(workspace).objects, base, commit),
  unresolved: (workspace, paths) => unresolvedIn(placeOf(workspace).worktree, paths),
});
