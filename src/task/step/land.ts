import { createPace } from "../../pace.ts";
import { hasSnapshot } from "../../domain/state/task.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { TurnFailure } from "../../protocol/event/conversation.ts";
import type { LandingPlan, Refusal, Workspace } from "../../workspace/workspace.ts";
import type { Commit } from "../../workspace/object/commit.ts";
import { type Conflict, returnConflict } from "./conflict.ts";
import type { Run } from "../run.ts";
import { settle } from "./settle.ts";
import { messageFor } from "../workspace/commit.ts";
import { cherryPickCommand, namedPaths, takeBranchCommand } from "./branch-command.ts";

/**
 * Lands the checked tree in the project. If the work contains what the user had not committed, the change alone is
 * first put on the branch's head, and the checks run on that. `landing.started` is the point of no return: after it, a
 * run only completes the landing. `retries`: whether this Task's model may resolve a conflict.
 */
export const land = async (run: Run, retries: boolean): Promise<void> => {
  const workspace = await run.workspace();
  await run.landingTurn();
  const { landingStarted, tree, workspace: prepared, conflicts } = run.state();
  if (landingStarted !== null) return roll(run, workspace, await planOf(run, landingStarted));
  if (tree === null || prepared?.baseCommit == null) throw new Error("Expected a committed tree to land.");

  const unresolved = await run.workspaces.unresolved(workspace, conflicts);
  if (unresolved.length > 0) return meet(run, workspace, retries, { kind: "unresolved", paths: unresolved });
  if (hasSnapshot(run.state())) return rebase(run, workspace, tree, retries);

  if (prepared.targetRef === null) {
    const ref = `refs/heads/${prepared.branch}`;
    const kept = run.state().unlandable;
    await run.record([{ type: "landing.finished", data: { commit: tree.commit, tree: tree.tree, ref, kept } }], {
      decidedAt: run.state().version,
    });
    return;
  }

  using _slot = await run.slot();
  const plan = await run.workspaces.plan(workspace, tree, prepared.baseCommit);
  if ("reason" in plan) return await refused(run, workspace, plan, tree, retries);
  const paths = await keepPaths(run, plan.paths);
  const { commit, tree: treeID, from, ref } = plan;
  const started = await run.record([{ type: "landing.started", data: { commit, tree: treeID, from, ref, paths } }], {
    decidedAt: run.state().version,
  });
  if (started) await roll(run, workspace, plan);
};

const roll = async (run: Run, workspace: Workspace, plan: LandingPlan): Promise<void> => {
  const { commit, tree, ref } = plan;
  const landed = await run.workspaces.land(workspace, plan);
  if (!landed.ok) {
    await run.record([{ type: "landing.withdrawn", data: { reason: landed.reason } }]);
    return;
  }
  const kept = [...new Set([...landed.kept, ...run.state().unlandable])];
  const merged = plan.paths.filter((path) => path.merged === true && !kept.includes(path.path)).map(({ path }) => path);
  const more = merged.length === 0 ? {} : { merged };
  await run.record([{ type: "landing.finished", data: { commit, tree, ref, kept, ...more } }]);
};

const rebase = async (run: Run, workspace: Workspace, tree: Commit, retries: boolean): Promise<void> => {
  if (run.state().moves >= run.limits.landingMoves) return outrun(run, workspace);
  const rebased = await run.workspaces.rebase(workspace, tree, messageFor(run));
  if (rebased.ok) {
    const { baseCommit, baseTree, commit, tree: treeID, left } = rebased;
    const more = left.length === 0 ? {} : { left };
    await run.record([{ type: "workspace.rebased", data: { baseCommit, baseTree, commit, tree: treeID, ...more } }]);
    run.forgetWorkspace();
    return;
  }
  const { branch } = workspace.prepared;
  switch (rebased.reason) {
    case "conflict":
      return meet(run, workspace, retries, { kind: "moved", paths: rebased.paths });
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
 * The branch received new commits each time before the checks had passed: the Task fails instead of following it
 * forever.
 */
const outrun = (run: Run, { prepared: { branch, targetRef } }: Workspace): Promise<void> =>
  fail(run, {
    code: "landing_refused",
    message: `The work is done and on ${branch}, but ${targetRef ?? "the project"} had new commits each time that the checks had passed, ${run.state().moves} times in a row. Nothing was overwritten. To take it: ${cherryPickCommand(branch)}`,
    retryable: true,
    remedy: `Send a message to land again when the branch is quiet, or run: ${cherryPickCommand(branch)}`,
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
      return meet(run, workspace, retries, { kind: "edited", paths: refusal.paths });
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

/** Reports a conflict to the agent, or fails the Task with the commands that take its work. */
const meet = async (run: Run, workspace: Workspace, retries: boolean, conflict: Conflict): Promise<void> => {
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

const fail = (run: Run, failure: TurnFailure): Promise<void> => settle(run, { lifecycleStatus: "failed", failure });

/** Many paths are stored in a blob, because no event exceeds 64 KiB. */
const keepPaths = async (run: Run, paths: LandingPlan["paths"]): Promise<EventData["landing.started"]["paths"]> => {
  const parts: string[] = [];
  const pace = createPace();
  for (const path of paths) {
    parts.push(JSON.stringify(path));
    await pace();
  }
  const text = `[${parts.join(",")}]`;
  return text.length <= 32 * 1024 ? paths : { blob: await run.store.blobs.put(Buffer.from(text), true) };
};

const planOf = async (run: Run, started: EventData["landing.started"]): Promise<LandingPlan> => {
  const { commit, tree, from, ref, paths } = started;
  if (!("blob" in paths)) return { commit, tree, from, ref, paths };
  const bytes = await run.store.blobs.get(paths.blob.sha256);
  if (bytes === undefined) throw new Error(`The paths of the landing of ${run.stream} are gone from the data folder.`);
  return { commit, tree, from, ref, paths: await pathsIn(bytes.toString("utf8")) };
};

/** Between two of the paths of `keepPaths`; in a string of JSON the quotes would be escaped. */
const between = '},{"path":"';
/** Characters that are parsed at once. */
const mostAtOnce = 1024 * 1024;

const pathsIn = async (text: string): Promise<LandingPlan["paths"]> => {
  const paths: LandingPlan["paths"] = [];
  const pace = createPace();
  for (let at = 0; at < text.length; ) {
    const next = at + mostAtOnce < text.length ? text.indexOf(between, at + mostAtOnce) : -1;
    const end = next < 0 ? text.length : next + 1;
    const part = `${at === 0 ? "" : "["}${text.slice(at, end)}${next < 0 ? "" : "]"}`;
    for (const path of JSON.parse(part) as LandingPlan["paths"]) paths.push(path);
    at = next < 0 ? end : end + 1;
    await pace();
  }
  return paths;
};
