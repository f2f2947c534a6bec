import { existsSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { createPace } from "../../pace.ts";
import type { LandedPath } from "../../protocol/event/workspace.ts";
import { holdsOnly, readFileState, inspectFile } from "../file/inspect.ts";
import { replaceFile, removeLeftover, removeFile } from "../file/replace.ts";
import type { Git } from "../git/git.ts";
import { headOf, refOf } from "../git/repository.ts";
import type { WorktreeRecord } from "../record.ts";
import type { LandingPlan } from "../workspace.ts";
import { landedContent, type LandedFile } from "./content.ts";
import { lockIndex } from "./index-lock.ts";
import { copyOf, makeIndex } from "./new-index.ts";
import type { Landed, LandRequest } from "./request.ts";

/**
 * Carries out a landing plan under git's own index lock. The order: the files; the new index, next to the old one; the
 * branch, by compare-and-swap; the new index into place; the lock. Each operation first checks whether it is already
 * done, so recovery after a kill takes the same path as a first attempt.
 */

export const applyLanding = async (request: LandRequest): Promise<Landed> => {
  const { taskID, record, plan, git, step } = request;
  if (!existsSync(record.projectGitDir))
    return { ok: false, reason: `${record.toplevel} is no Git repository any more` };
  step("lock");
  const lock = await lockIndex(record.projectGitDir, taskID, request.lockWaitMs);
  const present = await branchAt(git, record, plan.ref);
  if (await contains(git, present, plan)) return finish(request, lock !== undefined && present === plan.commit, lock);
  if (lock === undefined) return rollBack(request, "another git command holds the project's index.lock");
  try {
    if (present !== plan.from) return await rollBack(request, `${plan.ref} moved to ${present ?? "nothing"}`);
    const head = headOf(record.projectGitDir)?.ref;
    if (head !== plan.ref)
      return await rollBack(request, `the project is on ${head ?? "no branch"} now, not on ${plan.ref}`);

    return await carryOut(request);
  } finally {
    step("unlock");
    lock.release();
  }
};

/**
 * On an error before the branch is updated, the files are put back; after that, the next call finds the landing done.
 */
const carryOut = async (request: LandRequest): Promise<Landed> => {
  const { record, plan, git, step } = request;
  let taken = false;
  try {
    const kept: string[] = [];
    const pace = createPace();
    for (const path of plan.paths) {
      step("file");
      await pace();
      if (!(await apply(request, path))) kept.push(path.path);
    }
    await makeIndex(request);
    step("branch");
    taken = await takeBranch(request);
    if (!taken) {
      const now = await branchAt(git, record, plan.ref);
      return await rollBack(request, `${plan.ref} moved to ${now ?? "nothing"}`);
    }
    step("index");
    renameSync(copyOf(request), join(record.projectGitDir, "index"));
    return { ok: true, kept };
  } catch (error) {
    if (!taken) await rollBack(request, "").catch(() => undefined);
    throw error;
  }
};

/**
 * Updates the branch by compare-and-swap, retrying while another git command has the ref locked. false: it points
 * elsewhere.
 */
const takeBranch = async ({ taskID, record, plan, git, lockWaitMs }: LandRequest): Promise<boolean> => {
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
      if (performance.now() > deadline) throw error;
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

/** The branch already has the commit. After a kill right behind the branch update, only the index is missing. */
const finish = async (
  request: LandRequest,
  atCommit: boolean,
  lock: { takenOver: boolean; release(): void } | undefined,
): Promise<Landed> => {
  try {
    if (atCommit && (lock?.takenOver === true || existsSync(copyOf(request)))) {
      await makeIndex(request);
      request.step("index");
      renameSync(copyOf(request), join(request.record.projectGitDir, "index"));
    }
    const kept: string[] = [];
    const pace = createPace();
    if (atCommit)
      for (const path of request.plan.paths) {
        await pace();
        if (!isAs(await stateOf(request.record.toplevel, path.path), path.after, path)) kept.push(path.path);
      }
    return { ok: true, kept };
  } finally {
    request.step("unlock");
    lock?.release();
  }
};

type State = { mode: string; sha256: string; stamp: string } | "absent" | "special";

const stateOf = async (root: string, path: string): Promise<State> => {
  const found = await inspectFile(root, path);
  switch (found.kind) {
    case "present":
      return found.content;
    case "special":
      return "special";
    // git tracks no folders; whatever is in the way is another path, of the plan or of the user.
    case "absent":
    case "blocked":
    case "folder":
      return "absent";
  }
};

const isLink = (mode: string) => mode === "120000";

/** Whether the file is as wanted. The executable bit counts only where it is the change: some file systems lose it. */
const isAs = (state: State, wanted: LandedPath["before"], { before, after }: LandedPath): boolean => {
  if (wanted === null || typeof state === "string") return wanted === null && state === "absent";
  const modeOnly = before?.sha256 === after?.sha256;
  const sameMode = modeOnly ? state.mode === wanted.mode : isLink(state.mode) === isLink(wanted.mode);
  return state.sha256 === wanted.sha256 && sameMode;
};

/** The stamp to pass to `replaceFile` where the file is as wanted, else undefined. */
const stampIf = (state: State, wanted: LandedPath["before"], path: LandedPath): string | undefined =>
  isAs(state, wanted, path) ? (typeof state === "string" ? "-" : state.stamp) : undefined;

/** Brings one path from `before` to `after`. false: it is neither, and the user's bytes stay. */
const apply = async (request: LandRequest, path: LandedPath): Promise<boolean> => {
  const { record, taskID, step } = request;
  const root = record.toplevel;
  removeLeftover(root, path.path, taskID);
  const state = await stateOf(root, path.path);
  if (isAs(state, path.after, path)) return true;
  if (!isAs(state, path.before, path)) return false;
  // The user may save the file at this moment, so it is inspected again right before it is replaced.
  const still = async () => {
    step("rename");
    return stampIf(await stateOf(root, path.path), path.before, path);
  };
  if (path.after !== null) return write(request, path.path, path.after, still);
  if ((await still()) === undefined) return false;
  await removeFile(root, path.path, record.prefix);
  return true;
};

/** false: something of the user's is in the way, a file where a folder must be or a folder that is not empty. */
const write = async (
  request: LandRequest,
  path: string,
  wanted: LandedFile,
  ready?: () => Promise<string | undefined>,
): Promise<boolean> => {
  const root = request.record.toplevel;
  const found = await readFileState(root, path, 0);
  if (found.kind === "blocked" || (found.kind === "folder" && !(await holdsOnly(root, path, new Set())))) return false;
  return replaceFile(root, path, await landedContent(request, path, wanted), request.taskID, ready);
};

/** Restores every path that is still as we wrote it. Only before the branch is updated. */
const rollBack = async (request: LandRequest, reason: string): Promise<Landed> => {
  const { record, plan, taskID, step } = request;
  const root = record.toplevel;
  const pace = createPace();
  for (const path of plan.paths.toReversed()) {
    step("put back");
    await pace();
    removeLeftover(root, path.path, taskID);
    const state = await stateOf(root, path.path);
    if (isAs(state, path.before, path) || !isAs(state, path.after, path)) continue;
    if (path.before === null) await removeFile(root, path.path, record.prefix);
    else {
      const still = async () => stampIf(await stateOf(root, path.path), path.after, path);
      await write({ ...request, worktree: root }, path.path, path.before, still);
    }
  }
  rmSync(copyOf(request), { force: true });
  return { ok: false, reason };
};
