import { hasSnapshot } from "../../../domain/state/task.ts";
import type { TurnFailure } from "../../../protocol/event/conversation.ts";
import type { LandingPlan, Refusal, Workspace } from "../../../workspace/workspace.ts";
import type { Commit } from "../../../workspace/object/commit.ts";
import { type Conflict, returnConflict } from "./conflict.ts";
import type { Run } from "../../run.ts";
import { awaitLanding } from "../approve.ts";
import { settle } from "../settle.ts";
import { baseOf } from "../../workspace/repository.ts";
import { messageFor } from "../../workspace/commit.ts";
import { endUnfinishedLanding, keepPaths, landedEvent, planOf, patiently } from "../../workspace/landing.ts";
import { retitled } from "../../workspace/describe.ts";
import { namedPaths } from "../../../domain/task/commit-text.ts";
import { cherryPickCommand, takeBranchCommand } from "./branch-command.ts";

/**
 * Lands the checked tree in the project. If the work contains the user's uncommitted changes, the Task's change alone
 * is first rebased onto the branch's head, and the checks run on that. `landing.started` is the point of no return:
 * after it, a run only completes the landing. `retries`: whether this Task's model may resolve a conflict.
 */
export const land = async (run: Run, retries: boolean): Promise<void> => {
  const workspace = await run.workspace();
  await run.landingTurn();
  await patiently(run, () => endUnfinishedLanding(run, run.stream));
  const { landingStarted, tree, workspace: prepared, conflicts } = run.state();
  if (landingStarted !== null) return completeLanding(run, workspace, await planOf(run.store, landingStarted));
  if (tree === null || prepared?.baseCommit == null) throw new Error("Expected a committed tree to land.");

  const unresolved = await run.workspaces.unresolved(workspace, conflicts);
  if (unresolved.length > 0) return handleConflict(run, workspace, retries, { kind: "unresolved", paths: unresolved });
  if (hasSnapshot(run.state())) return rebase(run, workspace, tree, retries);
  if (await awaitLanding(run, workspace)) return;

  if (prepared.targetRef === null) {
    const ref = `refs/heads/${prepared.branch}`;
    const kept = run.state().unlandable;
    const finished = { commit: tree.commit, tree: tree.tree, ref, kept };
    await run.record([...(await retitled(run)), { type: "landing.finished", data: finished }], {
      decidedAt: run.state().version,
    });
    return;
  }

  using _slot = await run.slot();
  const plan = await run.workspaces.plan(workspace, await sealed(run, workspace, tree), prepared.baseCommit);
  if ("reason" in plan) return await refused(run, workspace, plan, tree, retries);
  const paths = await keepPaths(run.store, plan.paths);
  const { commit, tree: treeID, from, ref, alone } = plan;
  const data = { commit, tree: treeID, from, ref, paths, ...(alone === undefined ? {} : { alone }) };
  const started = await run.record([{ type: "landing.started", data }], { decidedAt: run.state().version });
  if (started) await completeLanding(run, workspace, plan);
};

/** A merge lands as a commit that has the merged branch as its second parent. */
const sealed = async (run: Run, workspace: Workspace, tree: Commit): Promise<Commit> => {
  const { mergeOf, landings } = run.state();
  if (mergeOf === null || landings.length > 0) return tree;
  return run.workspaces.sealMerge(workspace, tree, mergeOf.commit, await messageFor(run));
};

const completeLanding = async (run: Run, workspace: Workspace, plan: LandingPlan): Promise<void> => {
  const landed = await patiently(run, () => run.workspaces.land(workspace, plan, run.signal));
  if (landed.ok) {
    await run.record([...(await retitled(run)), landedEvent(run.state(), plan, landed.kept)]);
    return;
  }
  const { reason, edited = [] } = landed;
  const more = edited.length === 0 ? {} : { edited: edited.slice(0, 500) };
  await run.record([{ type: "landing.withdrawn", data: { reason, ...more } }]);
  if (edited.length > 0 && run.state().moves >= run.limits.landingMoves)
    await outrun(run, workspace, `${namedPaths(edited)} was saved each time`);
};

export const rebase = async (run: Run, workspace: Workspace, tree: Commit, retries: boolean): Promise<void> => {
  if (run.state().moves >= run.limits.landingMoves) return outrun(run, workspace);
  const rebased = await run.workspaces.rebase(workspace, tree, await messageFor(run));
  if (rebased.ok) {
    const { baseCommit, baseTree, commit, tree: treeID, left } = rebased;
    const more = { ...(left.length === 0 ? {} : { left }), ...baseOf(run, baseCommit) };
    await run.record([{ type: "workspace.rebased", data: { baseCommit, baseTree, commit, tree: treeID, ...more } }]);
    run.forgetWorkspace();
    return;
  }
  const { branch } = workspace.prepared;
  switch (rebased.reason) {
    case "conflict":
      return handleConflict(run, workspace, retries, { kind: "moved", paths: rebased.paths });
    case "entangled":
      return fail(run, {
        code: "landing_entangled",
        message: `The work is done and on ${branch}, but it changes lines that are not committed in the project, and cannot be a commit without them: ${namedPaths(rebased.paths)}. Nothing was overwritten. To take it into your files as they are: ${takeBranchCommand(branch)}`,
        retryable: false,
        remedy: `Run: ${takeBranchCommand(branch)} — or commit your own changes first, then run: ${cherryPickCommand(branch)}`,
      });
  }
};

/**
 * Fails the Task instead of trying forever: each time, the branch had received new commits before the checks passed, or
 * files were saved while they were to be replaced.
 */
const outrun = (
  run: Run,
  { prepared: { branch, targetRef } }: Workspace,
  why = `${targetRef ?? "the project"} had new commits each time that the checks had passed`,
): Promise<void> =>
  fail(run, {
    code: "landing_refused",
    message: `The work is done and on ${branch}, but ${why}, ${run.state().moves} times in a row. Nothing was overwritten. To take it: ${cherryPickCommand(branch)}`,
    retryable: true,
    remedy: `Send a message to land again when the project is quiet, or run: ${cherryPickCommand(branch)}`,
  });

const refused = async (
  run: Run,
  workspace: Workspace,
  refusal: Refusal,
  tree: Commit,
  retries: boolean,
): Promise<void> => {
  const { branch } = workspace.prepared;
  switch (refusal.reason) {
    case "moved":
      return rebase(run, workspace, tree, retries);
    case "dirty":
      return handleConflict(run, workspace, retries, { kind: "edited", paths: refusal.paths });
    case "detached":
    case "gone":
      return fail(run, {
        code: "landing_refused",
        message: `The work is done and on ${branch}, but could not land: ${refusal.message}. To take it: ${cherryPickCommand(branch)}`,
        retryable: true,
        remedy: `Run: ${cherryPickCommand(branch)}`,
      });
  }
};

/** Reports a conflict to the agent, or fails the Task with the commands with which a person can take its work. */
export const handleConflict = async (
  run: Run,
  workspace: Workspace,
  retries: boolean,
  conflict: Conflict,
): Promise<void> => {
  const { branch, targetRef } = workspace.prepared;
  const most = run.limits.landingRounds;
  if (!retries || run.state().landingRound >= most) {
    const rounds = run.state().landingRound === 0 ? "" : ` after ${run.state().landingRound} rounds`;
    const why = {
      moved: `${targetRef ?? "the project"} has moved on and both changed the same places`,
      edited: "the project has uncommitted changes in the same places",
      unresolved: "conflict markers were left in its files",
    }[conflict.kind];
    return fail(run, {
      code: "landing_conflict",
      message: `The work is done and on ${branch}, but ${why}${rounds}: ${namedPaths(conflict.paths)}. Nothing was overwritten. To take it: ${cherryPickCommand(branch)}`,
      retryable: conflict.kind === "edited",
      remedy: `${conflict.kind === "edited" ? "Commit or stash your changes, then run" : "Run"}: ${cherryPickCommand(branch)}`,
    });
  }
  const inTheWay = await returnConflict(run, workspace, conflict);
  if (inTheWay.length === 0) return;
  return fail(run, {
    code: "landing_dirty",
    message: `The work is done and on ${branch}, but something is in its way in the project that Git does not show: ${namedPaths(inTheWay)}. Nothing was overwritten. To take it: ${cherryPickCommand(branch)}`,
    retryable: true,
    remedy: `Move it away and send a message to land again, or run: ${cherryPickCommand(branch)}`,
  });
};

export const fail = (run: Run, failure: TurnFailure): Promise<void> =>
  settle(run, { lifecycleStatus: "failed", failure });
