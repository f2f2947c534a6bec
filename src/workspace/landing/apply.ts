import { existsSync, renameSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { pace } from "../../pace.ts";
import { LandingUnfinished } from "../error.ts";
import { removeLeftover, syncFolders } from "../file/replace.ts";
import type { Git } from "../git/git.ts";
import { headOf, refOf } from "../git/repository.ts";
import { checkedOutAt } from "../object/branch.ts";
import type { WorktreeRecord } from "../record.ts";
import type { Landed, LandingPlan } from "../workspace.ts";
import { holderOf, type IndexLock, isHeldElsewhere, lockIndex, whoHolds } from "./index-lock.ts";
import { copyOf, makeIndex, removeCopy } from "./new-index.ts";
import { matchesState, stateOf } from "./path-state.ts";
import type { LandRequest } from "./request.ts";
import { changedSince, placeFile, removeNew, removeStaged, stage, type Staged } from "./stage.ts";
import { pathsStillAsWritten, takeBack } from "./take-back.ts";

/**
 * Carries out a landing plan. The new files are written first, elsewhere (`stage.ts`). Then, under git's own index
 * lock: each file gets its place by a rename; the new index is written next to the old one; the branch is updated by
 * compare-and-swap; the new index gets its place. Each operation first checks whether it is already done, so recovery
 * after a kill takes the same path as a first attempt.
 *
 * A landing that is neither done nor taken back keeps the lock, so that nobody commits half of it.
 */

/**
 * What this attempt did to the user's files. `wrote`: the paths it may have written; undefined: an earlier process may
 * have written any path. `half`: the landing is neither done nor taken back.
 */
type Progress = { wrote: Set<string> | undefined; half: boolean };

export const applyLanding = async (asked: LandRequest): Promise<Landed> => {
  const { taskID, record, step } = asked;
  if (!existsSync(record.projectGitDir))
    return { ok: false, reason: `${record.toplevel} is no longer a Git repository` };
  if (asked.plan.alone === true) return moveAlone(asked);
  const holder = holderOf(record.projectGitDir);
  // The staged files have one place, so only one process may land the Task at a time.
  if (holder?.taskID === taskID && isHeldElsewhere(holder)) throw new LandingUnfinished(whoHolds(record.projectGitDir));
  const first = asked.indexStamp !== undefined && holder?.taskID !== taskID;
  // If an earlier process may have changed files, the landing can no longer be given up.
  const request = first ? asked : { ...asked, signal: undefined };
  const staged = await stageFor(request);
  if (staged === "stopped") return { ok: false, reason: "the service stopped before it changed a file" };
  step("lock");
  const lock = await lockFor(request);
  const isFirst = first && lock?.takenOver !== true;
  const progress: Progress = { wrote: isFirst ? new Set() : undefined, half: lock?.takenOver === true };
  try {
    const landed = await underLock(request, lock, staged, progress);
    progress.half = false;
    return landed;
  } catch (error) {
    throw progress.half ? new LandingUnfinished(error) : error;
  } finally {
    if (lock !== undefined && !progress.half) {
      step("unlock");
      lock.release();
    }
  }
};

/**
 * Moves a branch that nobody has checked out, under git's own lock on the project's index, so that nobody checks it out
 * meanwhile. No file is touched, so nothing can be left half done.
 */
const moveAlone = async (request: LandRequest): Promise<Landed> => {
  const { plan, git, record, step, back } = request;
  step("lock");
  const lock = await lockFor(request);
  try {
    const present = await branchAt(git, record, plan.ref);
    if (await contains(git, present, plan)) return { ok: true, kept: [] };
    const where = await checkedOutAt(git, plan.ref);
    const bar =
      back ??
      (lock === undefined
        ? whoHolds(record.projectGitDir)
        : present !== plan.from
          ? `${plan.ref} moved to ${present ?? "nothing"}`
          : where === undefined
            ? undefined
            : `${plan.ref} is checked out in ${where} now`);
    if (bar !== undefined) return { ok: false, reason: bar };
    step("branch");
    if (await takeBranch(request)) return { ok: true, kept: [] };
    return { ok: false, reason: `${plan.ref} moved meanwhile` };
  } finally {
    step("unlock");
    lock?.release();
  }
};

/**
 * undefined: another process holds the lock; or the lock cannot be taken, and the landing is to be taken back anyway.
 */
const lockFor = ({ taskID, record, home, lockWaitMs, signal, back }: LandRequest): Promise<IndexLock | undefined> =>
  lockIndex({ gitDir: record.projectGitDir, taskID, home }, lockWaitMs, signal).catch((error: unknown) => {
    if (back === undefined) throw error;
    return undefined;
  });

/** The staged files; undefined: as far as can be seen without the lock, there is nothing to carry out. */
const stageFor = async (request: LandRequest): Promise<Staged | "stopped" | undefined> => {
  const { record, plan, git } = request;
  if (request.back !== undefined || (await branchAt(git, record, plan.ref)) !== plan.from) return undefined;
  try {
    return await stage(request);
  } catch (error) {
    await removeNew(request);
    if (request.signal?.aborted === true) return "stopped";
    throw error;
  }
};

const underLock = async (
  request: LandRequest,
  lock: IndexLock | undefined,
  staged: Staged | undefined,
  progress: Progress,
): Promise<Landed> => {
  const { record, plan, git } = request;
  const present = await branchAt(git, record, plan.ref);
  if (await contains(git, present, plan)) return finish(request, present === plan.commit, lock);
  if (lock === undefined) {
    const reason = request.back ?? whoHolds(record.projectGitDir);
    if (progress.wrote === undefined && (await pathsStillAsWritten(request, undefined)).length > 0)
      throw new LandingUnfinished(reason);
    await removeStaged(request);
    return { ok: false, reason };
  }
  const back = (reason: string) => takeBack(request, reason, progress.wrote);
  if (request.back !== undefined) return back(request.back);
  if (present !== plan.from) return back(`${plan.ref} moved to ${present ?? "nothing"}`);
  const head = headOf(record.projectGitDir)?.ref;
  if (head !== plan.ref) return back(`the project is on ${head ?? "no branch"} now, not on ${plan.ref}`);
  // The branch returned to `plan.from` between the two looks at it.
  if (staged === undefined) return back(`${plan.ref} moved meanwhile`);
  return carryOut(request, staged, progress);
};

/**
 * Carries out the plan under the lock. On an error before the branch is updated, the files are put back; after that,
 * the next call finds the landing done. A path that the user saved since the plan is not overwritten: then, too, the
 * files are put back.
 */
const carryOut = async (request: LandRequest, staged: Staged, progress: Progress): Promise<Landed> => {
  const { record, plan, git, step } = request;
  let taken = false;
  progress.half = true;
  const savedMeanwhile = async (edited: string[]): Promise<Landed> => {
    const names = edited.slice(0, 3).join(", ");
    const landed = await takeBack(request, `saved while it landed: ${names}`, progress.wrote);
    return landed.ok ? landed : { ...landed, edited };
  };
  try {
    const edited = [...staged.edited, ...(await changedSince(request, (path) => staged.ready.get(path)?.stamp))];
    if (edited.length > 0) return await savedMeanwhile(edited);
    const done = await putAll(request, staged, progress);
    if ("edited" in done) return await savedMeanwhile([done.edited]);
    await makeIndex(request);
    step("branch");
    const saved = await changedSince(request, (path) => done.stamps.get(path));
    if (saved.length > 0) return await savedMeanwhile(saved);
    taken = await takeBranch(request);
    if (!taken) {
      const now = await branchAt(git, record, plan.ref);
      return await takeBack(request, `${plan.ref} moved to ${now ?? "nothing"}`, progress.wrote);
    }
    step("index");
    renameSync(copyOf(request), join(record.projectGitDir, "index"));
    const kept = await changedSince(request, (path) => done.stamps.get(path));
    progress.half = false;
    await removeStaged(request);
    return { ok: true, kept };
  } catch (error) {
    if (!taken) {
      await takeBack(request, "", progress.wrote);
      progress.half = false;
    }
    throw error;
  }
};

/** Puts all files in place, deletions first, as in the plan, and makes the renames durable. */
const putAll = async (
  request: LandRequest,
  { ready }: Staged,
  { wrote }: Progress,
): Promise<{ stamps: Map<string, string> } | { edited: string }> => {
  const stamps = new Map<string, string>();
  for (const [at, path] of request.plan.paths.entries()) {
    await pace();
    const prepared = ready.get(path.path);
    if (prepared === undefined) continue;
    // Noted first, because a write that fails may still have happened.
    wrote?.add(path.path);
    const stamp = await placeFile(request, at, path, prepared);
    if (stamp === undefined) return { edited: path.path };
    stamps.set(path.path, stamp);
  }
  await syncFolders(request.record.toplevel, [...stamps.keys()]);
  return { stamps };
};

/**
 * Updates the branch by compare-and-swap; retries while another git command has the ref locked. false: the branch is at
 * another commit.
 */
const takeBranch = async ({ taskID, record, plan, git, lockWaitMs, signal }: LandRequest): Promise<boolean> => {
  const deadline = performance.now() + lockWaitMs;
  for (let pause = 10; ; pause = Math.min(pause * 2, 200)) {
    try {
      const update = ["update-ref", "-m", `sortie: land ${taskID}`, plan.ref, plan.commit, plan.from];
      await git.run(update, { undisturbed: true });
      return true;
    } catch (error) {
      const now = await branchAt(git, record, plan.ref);
      if (await contains(git, now, plan)) return true;
      if (now !== plan.from) return false;
      if (performance.now() > deadline || signal?.aborted === true) throw error;
      await wait(pause);
    }
  }
};

const branchAt = async (git: Git, { commonDir }: WorktreeRecord, ref: string): Promise<string | null> => {
  const known = refOf(commonDir, ref);
  if (known !== undefined) return known;
  const { stdout } = await git.run(["rev-parse", "--verify", "-q", ref], { ok: [0, 1] });
  return stdout.toString("latin1").trim() || null;
};

/** Whether the branch has the commit, possibly with later commits of the user's on top. */
const contains = async (git: Git, present: string | null, { commit, from }: LandingPlan): Promise<boolean> => {
  if (present === null || present === from) return false;
  if (present === commit) return true;
  return (await git.run(["merge-base", "--is-ancestor", commit, present], { ok: [0, 1] })).exitCode === 0;
};

/**
 * Ends a landing whose commit the branch already has. After a kill right behind the branch update, only the index is
 * missing, as long as the project is on the branch: if the user has left the branch since, the index is that of the
 * branch they are on now.
 */
const finish = async (request: LandRequest, isAtCommit: boolean, lock: IndexLock | undefined): Promise<Landed> => {
  const copied = existsSync(copyOf(request));
  const atCommit = isAtCommit && headOf(request.record.projectGitDir)?.ref === request.plan.ref;
  if (atCommit && lock === undefined && copied) throw new LandingUnfinished(whoHolds(request.record.projectGitDir));
  if (atCommit && (lock?.takenOver === true || copied)) {
    await makeIndex(request);
    request.step("index");
    renameSync(copyOf(request), join(request.record.projectGitDir, "index"));
  } else removeCopy(request);
  const kept: string[] = [];
  for (const path of request.plan.paths) {
    await pace();
    removeLeftover(request.record.toplevel, path.path, request.taskID);
    if (atCommit && !matchesState(await stateOf(request.record.toplevel, path.path), path.after, path))
      kept.push(path.path);
  }
  await removeStaged(request);
  return { ok: true, kept };
};
