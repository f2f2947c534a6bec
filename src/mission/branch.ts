import { hasOwnBranch } from "../domain/mission/whole/merge.ts";
import { isRunning, type MissionState } from "../domain/state/mission.ts";
import type { Branches } from "../workspace/object/branch.ts";
import { taskDirectory } from "./repository.ts";
import type { MissionRun } from "./run.ts";

/**
 * The branch of a Mission whose project is a directory with Git. Its Tasks begin and land there: a later phase begins
 * from what an earlier one left, and nothing reaches the branch that the user works on before the whole is merged.
 *
 * The branch's name is recorded before the branch is made. If a branch of that name exists already, it belongs to
 * somebody else and is left alone, unless it is at the very commit from which the Mission was about to make it: then a
 * run died in between.
 */

export const refOf = ({ name }: { name: string }): string => `refs/heads/${name}`;

type Place = Pick<MissionRun, "workspaces">;

/** The commit of the Mission's branch; null: it has none, or the branch is gone. */
export const branchHead = async (run: Place & Pick<MissionRun, "state">): Promise<string | null> => {
  const { branch, directory } = run.state();
  if (branch === null || !hasOwnBranch(run.state())) return null;
  const { project } = await run.workspaces.inspect(directory);
  return run.workspaces.branches(project).headOf(refOf(branch));
};

/**
 * Full name of the branch on which a Task that is dispatched now begins and lands; the branch exists when this
 * resolves. undefined: the Mission has no branch of its own, its Tasks use the project's. A branch that was removed is
 * made anew, from the newest commit that landed there, unless that was merged already.
 */
export const readyLocalBranch = async (run: MissionRun): Promise<{ onto: string | undefined } | { why: string }> => {
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
        // Another name, or the project's current head as the start, may still work. Here neither would be different.
        if (left === git.head && (await branches.headOf(ref)) === null)
          return { why: `Git could not make the branch ${branch.name}: ${refused}` };
      }
    }
    const data = { sessionID: run.stream, branch: await freeName(branches, state), commit: git.head, of: git.branch };
    await run.record([{ type: "mission.branched", data }], { decidedAt: state.version });
  }
};

/**
 * The directory in which the Mission's catalog is read: the files of its branch's head, because squads that are made
 * for the Mission land there; without a branch its work directory.
 */
export const catalogDirectory = async (run: MissionRun, newest = false): Promise<string> => {
  if ((await branchHead(run)) === null) return taskDirectory(run);
  const { files } = await (newest ? run.newestHead() : run.head());
  return files.root;
};

/**
 * The newest commit of the Mission's phases that the project's branch does not contain entirely; undefined: none
 * landed, or all are merged.
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

/**
 * Forwards the Mission's branch once the project's branch contains it, so that the next phase begins from there. Does
 * nothing while a Task runs.
 */
const follow = async (branches: Branches, { branch, tasks }: MissionState, head: string): Promise<void> => {
  if (branch?.of == null || tasks.some(isRunning)) return;
  const now = await branches.headOf(branch.of);
  if (now !== null && now !== head && (await branches.contains(branch.of, head)))
    await branches.forward(refOf(branch), head, now);
};
