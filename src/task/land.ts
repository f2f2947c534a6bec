import type { EventData, TurnFailure } from "../protocol/event.ts";
import type { LandingPlan, Refusal, Workspace } from "../workspace/workspace.ts";
import type { Run } from "./open.ts";
import { messageFor, settle } from "./settle.ts";

/** The checked tree enters the project. `landing.started` is the point of no return; from there on only forward. */
export const land = async (run: Run): Promise<void> => {
  const workspace = await run.workspace();
  await run.landingTurn();
  const { landingStarted, tree, workspace: prepared } = run.state();
  if (landingStarted !== null) return roll(run, workspace, await planOf(run, landingStarted));
  if (tree === null || prepared?.baseCommit == null) throw new Error("Expected a committed tree to land.");

  if (prepared.targetRef === null) {
    const ref = `refs/heads/${prepared.branch}`;
    await run.record([{ type: "landing.finished", data: { commit: tree.commit, tree: tree.tree, ref, kept: [] } }], {
      judged: run.state().version,
    });
    return;
  }

  using _slot = await run.slot();
  const plan = await run.workspaces.plan(workspace, tree, prepared.baseCommit);
  if ("reason" in plan) return refused(run, workspace, plan);
  const paths = await keepPaths(run, plan.paths);
  const { commit, tree: treeID, from, ref } = plan;
  const started = await run.record([{ type: "landing.started", data: { commit, tree: treeID, from, ref, paths } }], {
    judged: run.state().version,
  });
  if (started) await roll(run, workspace, plan);
};

const roll = async (run: Run, workspace: Workspace, plan: LandingPlan): Promise<void> => {
  const landed = await run.workspaces.land(workspace, plan);
  await run.record([
    landed.ok
      ? { type: "landing.finished", data: { commit: plan.commit, tree: plan.tree, ref: plan.ref, kept: landed.kept } }
      : { type: "landing.withdrawn", data: { reason: landed.reason } },
  ]);
};

const refused = async (run: Run, workspace: Workspace, refusal: Refusal): Promise<void> => {
  const { tree, workspace: prepared } = run.state();
  if (tree === null || prepared === null) return;
  switch (refusal.reason) {
    case "moved": {
      const rebased = await run.workspaces.rebase(workspace, tree, messageFor(run));
      if (!rebased.ok) return fail(run, conflict(prepared.branch, prepared.targetRef, rebased.paths));
      const { baseCommit, baseTree, commit, tree: treeID } = rebased;
      await run.record([{ type: "workspace.rebased", data: { baseCommit, baseTree, commit, tree: treeID } }]);
      run.forgetWorkspace();
      return;
    }
    case "dirty":
      return fail(run, {
        code: "landing_dirty",
        message: `The work is done and on ${prepared.branch}, but the project has uncommitted changes to the same files: ${named(refusal.paths)}. Nothing was overwritten.`,
        retryable: true,
        remedy: `Commit or stash them and send a message to land again, or run: git merge ${prepared.branch}`,
      });
    case "detached":
    case "gone":
      return fail(run, {
        code: "landing_refused",
        message: `The work is done and on ${prepared.branch}, but could not land: ${refusal.message}.`,
        retryable: true,
        remedy: `Run: git merge ${prepared.branch}`,
      });
  }
};

const fail = (run: Run, failure: TurnFailure): Promise<void> => settle(run, { lifecycleStatus: "failed", failure });

const conflict = (branch: string | null, ref: string | null, paths: string[]): TurnFailure => ({
  code: "landing_conflict",
  message: `The work is done and on ${branch}, but ${ref ?? "the project"} has moved on and both changed: ${named(paths)}.`,
  retryable: false,
  remedy: `Run: git merge ${branch}`,
});

const named = (paths: string[]): string =>
  paths.length <= 10 ? paths.join(", ") : `${paths.slice(0, 10).join(", ")} and ${paths.length - 10} more`;

/** Paths of a large landing stand in a blob: no event exceeds 64 KiB. */
const keepPaths = async (run: Run, paths: LandingPlan["paths"]): Promise<EventData["landing.started"]["paths"]> => {
  const text = JSON.stringify(paths);
  return text.length <= 32 * 1024 ? paths : { blob: await run.store.blobs.put(Buffer.from(text), true) };
};

const planOf = async (run: Run, started: EventData["landing.started"]): Promise<LandingPlan> => {
  const { commit, tree, from, ref, paths } = started;
  if (!("blob" in paths)) return { commit, tree, from, ref, paths };
  const bytes = await run.store.blobs.get(paths.blob.sha256);
  if (bytes === undefined) throw new Error(`The paths of the landing of ${run.stream} are gone from the data folder.`);
  return { commit, tree, from, ref, paths: JSON.parse(bytes.toString("utf8")) as LandingPlan["paths"] };
};
