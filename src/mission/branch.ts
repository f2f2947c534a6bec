import { hasOwnBranch } from "../domain/mission/whole/merge.ts";
import { isRunning, type MissionState } from "../domain/state/mission.ts";
import type { Branches } from "../workspace/object/branch.ts";
import { workDirectory } from "./repository.ts";
import type { MissionRun } from "./run.ts";

/**
 * The branch of a Mission in a directory's repository. Its Tasks begin and land there, so that a later phase begins
 * from what an earlier one left and nothing reaches the branch that the user works on before the whole is merged.
 *
 * Its name is a fact before the branch is made. One that is there already is somebody else's and left alone, unless it
 * stands where the Mission's was about to be made: then a run died in between.
 */

export const refOf = ({ name }: { name: string }): string => `refs/heads/${name}`;

type Place = Pick<MissionRun, "workspaces">;

/** The commit of its branch; null: it has none, or that is gone. */
export const branchHead = async (run: Place & Pick<MissionRun, "state">): Promise<string | null> => {
  const { branch, directory } = run.state();
  if (branch === null || !hasOwnBranch(run.state())) return null;
  const { project } = await run.workspaces.inspect(directory);
  return run.workspaces.branches(project).headOf(refOf(branch));
};

/**
 * The full name of the branch on which a Task that is dispatched now begins and lands, which is there then; undefined:
 * where the project is. One that was removed is made anew: from what landed there, if that was not merged.
 */
export const readyBranch = async (run: MissionRun): Promise<{ onto: string | undefined } | { why: string }> => {
  for (;;) {
    run.signal.throwIfAborted();
    const state = run.state();
    if (!hasOwnBranch(state)) return { onto: undefined };
    const { git, project } = await run.workspaces.inspect(state.directory);
    if (git?.head == null)
      return { why: `Expected a Git project with a commit in ${state.directory}, to branch off, got none.` };
    const branches = run.workspaces.branches(project);
    const { branch } = state;
    if (branch !== null) {
      const ref = refOf(branch);
      const head = await branches.headOf(ref);
      if (head !== null && branch.used) {
        await follow(branches, state, head);
        return { onto: ref };
      }
      const left = branch.used ? await landedOn(branches, state) : branch.commit;
      if (head !== null && head === left) return { onto: ref };
      if (head === null && left !== undefined) {
        const refused = await branches.make(ref, left);
        if (refused === undefined) return { onto: ref };
        // Under another name, or from the commit that is the project's now, it may be made; else nothing would change.
        if (left === git.head && (await branches.headOf(ref)) === null)
          return { why: `Git could not make the branch ${branch.name}: ${refused}` };
      }
    }
    const data = { sessionID: run.stream, branch: await freeName(branches, state), commit: git.head, of: git.branch };
    await run.record([{ type: "mission.branched", data }], { decidedAt: state.version });
  }
};

/** Where its catalog is read: with the files of its branch's head, on which squads land that are made for it. */
export const catalogDirectory = async (run: MissionRun, newest = false): Promise<string> => {
  if ((await branchHead(run)) === null) return workDirectory(run);
  const { files } = await (newest ? run.newestHead() : run.head());
  return files.root;
};

/**
 * The newest commit of its phases that the project's branch has not all of; undefined: none landed, or they are merged.
 */
const landedOn = async (branches: Branches, { branch, tasks }: MissionState): Promise<string | undefined> => {
  let newest: string | undefined;
  for (const { merge, ends } of tasks)
    for (const { landedCommit } of merge === undefined ? ends : [])
      if (landedCommit !== null && (newest === undefined || (await branches.contains(landedCommit, newest))))
        newest = landedCommit;
  if (newest === undefined || branch?.of == null) return newest;
  return (await branches.hasAllOf(branch.of, newest)) ? undefined : newest;
};

const freeName = async (branches: Branches, { missionID }: MissionState): Promise<string> => {
  for (let count = 1; ; count += 1) {
    const name = `sortie/${missionID}${count === 1 ? "" : `-${count}`}`;
    if (!(await branches.isTaken(refOf({ name })))) return name;
  }
};

/** What was merged is in the project's branch by now: the next phase begins from there. */
const follow = async (branches: Branches, { branch, tasks }: MissionState, head: string): Promise<void> => {
  if (branch?.of == null || tasks.some(isRunning)) return;
  const now = await branches.headOf(branch.of);
  if (now !== null && now !== head && (await branches.contains(branch.of, head)))
    await branches.forward(refOf(branch), head, now);
};
