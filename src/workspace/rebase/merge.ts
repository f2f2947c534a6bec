import { commitOf } from "../object/commit.ts";
import { commitOfTree, treeWith } from "../object/graft.ts";
import { changeSinceMergeBase, mergeOnto } from "../object/rebase.ts";
import { branchRefOf, setRef } from "../object/ref.ts";
import { isServiceSetting } from "../object/take-over.ts";
import { changesOf } from "../object/tree-change.ts";
import type { Workspaces } from "../workspace.ts";
import { branchOf } from "../worktree/create.ts";
import { plainSnapshot } from "../worktree/snapshot.ts";
import { graftPlaceOf, markConflicts, type Onto } from "./onto.ts";

/** Merges a Mission's branch into the base of the Task that lands it. */
export const createMerges = (onto: Onto): Pick<Workspaces, "merge" | "withMergedSettings" | "sealMerge"> => {
  const { folder, placeOf } = onto;
  return {
    async merge(workspace, commit, message, marks) {
      const place = placeOf(workspace);
      const { taskID, record, git, objects } = place;
      const { baseCommit } = workspace.prepared;
      if (baseCommit === null) throw new Error("Expected a base to merge into, got none.");
      const change = await changeSinceMergeBase(objects, baseCommit, commit);
      const merged = await mergeOnto(objects, change, baseCommit);
      if (merged.conflicts.length === 0) {
        const made = await commitOfTree(objects, merged.tree, baseCommit, message);
        if (made === undefined) return { ok: true, commit: made };
        await setRef({ commonDir: record.commonDir, git: objects }, branchRefOf(branchOf(taskID)), made.commit);
        await git.run(["reset", "-q", "--hard", made.commit], { timeoutMs: 10 * 60_000 });
        return { ok: true, commit: made };
      }
      if (!marks) return { ok: false, paths: merged.conflicts, marked: undefined };
      const taken = plainSnapshot(baseCommit);
      const marked = await markConflicts(folder, place, { taken, commit: change, message, dirty: [] });
      if (!marked.ok) throw new Error(`Expected a merge with markers, got ${marked.paths.join(", ")} in its way.`);
      return { ok: false, paths: marked.paths, marked };
    },
    async withMergedSettings(workspace, commit, merged, message) {
      const { objects } = placeOf(workspace);
      const change = await changeSinceMergeBase(objects, commit.parent, merged);
      const theirs = (await changesOf(objects, change.parent, merged)).filter(({ path }) => isServiceSetting(path));
      if (theirs.length === 0) return commit;
      const ours = new Set((await changesOf(objects, change.parent, commit.parent)).map(({ path }) => path));
      const grafts = theirs.filter(({ path }) => !ours.has(path));
      const tree = await treeWith(graftPlaceOf(onto, workspace), commit.tree, grafts);
      return (await commitOfTree(objects, tree, commit.parent, message)) ?? commit;
    },
    async sealMerge(workspace, commit, merged, message) {
      const parents = [commit.parent, merged];
      return { ...commit, commit: await commitOf(placeOf(workspace).objects, commit.tree, parents, message) };
    },
  };
};
