import { join } from "node:path";
import type { Git } from "../git/git.ts";
import { landingFolderIn, type WorktreeFolder } from "../worktree/create.ts";
import type { createWorktreeRecords, WorktreeRecord } from "../record.ts";
import type { Workspaces } from "../workspace.ts";
import { applyLanding } from "./apply.ts";
import { hasDied, holderOf, isHeldByThisProcess, releaseIndex } from "./index-lock.ts";
import { indexStampOf } from "./new-index.ts";
import { planLanding } from "./plan.ts";
import type { OnStep } from "./request.ts";

/** The landings of one service: plans them, carries them out, and ends those that an earlier process began. */

type Place = { taskID: string; record: WorktreeRecord };

export const createLandings = (options: {
  folder: Pick<WorktreeFolder, "gitOf" | "home" | "landingFolder" | "worktreeOf">;
  records: ReturnType<typeof createWorktreeRecords>;
  placeOf: (workspace: Parameters<Workspaces["plan"]>[0]) => Place;
  onStep: OnStep;
  lockWaitMs: number;
}): Pick<Workspaces, "plan" | "land" | "unfinishedLanding" | "endLanding"> => {
  const { folder, records, placeOf, onStep, lockWaitMs } = options;
  /** Stamps of the project's index at the time of a plan, by the planned commit. */
  const stamps = new Map<string, string>();
  /** git that a stop does not end: stopping the Task or the service waits for a landing, which ends by itself. */
  const undisturbed = (git: Git): Git => ({
    root: git.root,
    run: (args, more) => git.run(args, { ...more, undisturbed: true }),
  });
  const requestOf = ({ taskID, record }: Place) => ({
    taskID,
    record,
    home: folder.home,
    worktree: folder.worktreeOf(taskID),
    git: folder.gitOf(taskID, record),
    kept: folder.landingFolder(taskID),
    lockWaitMs,
  });

  /**
   * Ends a landing of another service on this machine. The project is that of the Task `at`; the landing's files are in
   * the other service's folders.
   */
  const endElsewhere: Workspaces["endLanding"] = async (taskID, plan, back, at) => {
    const record = records.of(at);
    const home = record && holderOf(record.projectGitDir)?.process?.home;
    if (record === undefined || home === undefined) return { ok: false, reason: "its files are missing" };
    if (plan === undefined) {
      releaseIndex(record.projectGitDir, taskID);
      return { ok: false, reason: "nothing was begun" };
    }
    const places = { home, worktree: join(home, taskID), kept: landingFolderIn(home, taskID) };
    const git = undisturbed(folder.gitOf(at, record));
    const how = { plan, indexStamp: undefined, back, step: onStep, lockWaitMs };
    return applyLanding({ taskID, record, git, ...places, ...how });
  };

  return {
    async plan(workspace, commit, base) {
      const place = placeOf(workspace);
      const stamp = indexStampOf(place.record.projectGitDir);
      const { targetRef: ref, named = false } = workspace.prepared;
      const plan = await planLanding({ ...requestOf(place), commit, base, ref, named });
      stamps.delete(commit.commit);
      if (!("reason" in plan)) stamps.set(commit.commit, stamp);
      return plan;
    },
    async land(workspace, plan, signal) {
      const indexStamp = stamps.get(plan.commit);
      stamps.delete(plan.commit);
      const request = requestOf(placeOf(workspace));
      return applyLanding({ ...request, git: undisturbed(request.git), plan, indexStamp, signal, step: onStep });
    },
    unfinishedLanding(taskID) {
      const record = records.of(taskID);
      const holder = record && holderOf(record.projectGitDir);
      if (holder === undefined) return undefined;
      const isHere = records.of(holder.taskID) !== undefined;
      return isHere || isHeldByThisProcess(holder) || hasDied(holder) ? holder.taskID : undefined;
    },
    async endLanding(taskID, plan, back, at) {
      const record = records.of(taskID);
      if (record === undefined) return endElsewhere(taskID, plan, back, at);
      if (plan !== undefined) {
        const request = requestOf({ taskID, record });
        const git = undisturbed(request.git);
        return applyLanding({ ...request, git, plan, indexStamp: undefined, back, step: onStep });
      }
      releaseIndex(record.projectGitDir, taskID);
      return { ok: false, reason: "nothing was begun" };
    },
  };
};
