import { idOf } from "../git/output.ts";
import { commitOfTree, filesBelow, keepsFiles, treeWith } from "../object/graft.ts";
import { branchRefOf, setRef } from "../object/ref.ts";
import type { Workspaces } from "../workspace.ts";
import { branchOf } from "../worktree/create.ts";
import { graftPlaceOf, type Onto } from "./onto.ts";

/**
 * Commits files, given as bytes, below a folder of the project, such as the package of a squad. No file on disk is
 * touched.
 */
export const createFolderCommits = (onto: Onto): Pick<Workspaces, "keepsBelow" | "commitBelow"> => {
  const { folder, placeOf } = onto;
  return {
    async keepsBelow(workspace, path, files) {
      const { taskID, record } = placeOf(workspace);
      return keepsFiles(folder.gitOf(taskID, record), below(record, path), files);
    },
    async commitBelow(workspace, path, files, message) {
      const { taskID, record, objects } = placeOf(workspace);
      const { baseCommit } = workspace.prepared;
      if (baseCommit === null) throw new Error("Expected a base to commit on, got none.");
      const at = below(record, path);
      const grafts = await filesBelow(objects, baseCommit, at, files);
      const tree = await treeWith(graftPlaceOf(onto, workspace), await idOf(objects, `${baseCommit}^{tree}`), grafts);
      const made = await commitOfTree(objects, tree, baseCommit, message);
      if (made !== undefined)
        await setRef({ commonDir: record.commonDir, git: objects }, branchRefOf(branchOf(taskID)), made.commit);
      return made;
    },
  };
};

const below = ({ prefix }: { prefix: string }, path: string) => (prefix === "" ? path : `${prefix}/${path}`);
