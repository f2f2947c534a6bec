import { join } from "node:path";
import { idOf } from "../git/output.ts";
import { branchRefOf, setRef } from "../object/ref.ts";
import type { MarkedRebase, Workspace } from "../workspace.ts";
import { branchOf, type WorktreeFolder } from "../worktree/create.ts";
import type { createWorktrees, WorktreePlace } from "../worktree/open.ts";
import { type MarkedRebaseRequest, rebaseWithMarkers } from "./conflict.ts";

/** The dependencies of everything that moves a Task's change onto another base. */
export type Onto = {
  home: string;
  folder: WorktreeFolder;
  placeOf: (workspace: Workspace) => WorktreePlace;
  snapshotOf: ReturnType<typeof createWorktrees>["snapshotOf"];
};

/** Moves the change onto `taken`; where the two conflict, the files hold both sides. */
export const markConflicts = async (
  folder: WorktreeFolder,
  { taskID, record, worktree, git, objects }: WorktreePlace,
  asked: Pick<MarkedRebaseRequest, "taken" | "commit" | "message" | "dirty">,
): Promise<MarkedRebase> => {
  const { taken, commit } = asked;
  const baseTree = taken.tree ?? (await idOf(objects, `${taken.commit}^{tree}`));
  const marked = await rebaseWithMarkers({ git, objects, worktree, baseTree, ...asked }, async (made) => {
    await folder.keep(taskID, commit.commit);
    await setRef({ commonDir: record.commonDir, git: objects }, branchRefOf(branchOf(taskID)), made);
    await folder.recordBase(taskID, "");
  });
  if (marked.ok) await folder.recordBase(taskID, marked.baseCommit);
  return marked;
};

/** The git and index for a tree with grafts: git on objects alone, and an index of its own. */
export const graftPlaceOf = ({ home, placeOf }: Pick<Onto, "home" | "placeOf">, workspace: Workspace) => {
  const { taskID, objects } = placeOf(workspace);
  return { git: objects, index: join(home, `${taskID}.graft`) };
};
