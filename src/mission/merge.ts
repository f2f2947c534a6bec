import { hasOwnBranch } from "../domain/mission/whole/merge.ts";
import { shareOf } from "../domain/mission/grant.ts";
import { standingOf } from "../domain/mission/standing.ts";
import { isRunning, type MissionState } from "../domain/state/mission.ts";
import { branchName } from "../domain/task/landing.ts";
import { mergeRequest } from "../domain/task/by-service.ts";
import { messageOf, ServiceError } from "../error.ts";
import { newID } from "../id.ts";
import { ClaimLost } from "../store/claimed-stream.ts";
import { expectLocalFiles } from "../store/node.ts";
import type { Fence, Store } from "../store/store.ts";
import type { Accepted, IdempotencyKey, MissionDispatch, TaskCreated } from "../task/tasks.ts";
import { MissionMovedOn } from "../task/tasks.ts";
import type { Workspaces } from "../workspace/workspace.ts";
import { refOf } from "./branch.ts";
import type { Missions } from "./missions.ts";
import { serviceTask } from "./service-task.ts";
import type { MissionDeps, MissionRun } from "./run.ts";

/**
 * Merges a Mission's branch by a Task that the service carries out itself, created in one commit with the Mission's
 * record of it. Conflicts, checks, approval and the user's files are handled as in every landing of a Task.
 */

type MergeDeps = Pick<MissionDeps, "tasks" | "limits"> & { workspaces: Pick<Workspaces, "inspect" | "branches"> };

/** `why` null: the project's branch already contains all of the Mission's. */
type Unmerged = { why: string | null };

/**
 * Creates the Task that merges the Mission's branch, or says why not. Rejects with `MissionMovedOn` when the Mission's
 * log is newer than `state`, or the claim `fence` is lost.
 */
export const dispatchMerge = async (
  { tasks, workspaces, limits }: MergeDeps,
  state: MissionState,
  { fence, once }: { fence?: Fence; once?: IdempotencyKey | undefined },
): Promise<Accepted<TaskCreated> | Unmerged> => {
  const { branch, directory, title } = state;
  if (branch === null) return { why: "nothing was dispatched yet" };
  const { git, project } = await workspaces.inspect(directory);
  const branches = workspaces.branches(project);
  const commit = await branches.headOf(refOf(branch));
  if (commit === null) return { why: `its branch ${branch.name} is gone` };
  const onto = branch.of ?? git?.branch ?? null;
  if (onto === null)
    return { why: "the project has no branch checked out, and had none when the Mission branched off" };
  const into = branchName(onto);
  if ((await branches.headOf(onto)) === null) return { why: `the branch ${into}, from which it came, is gone` };
  if (await branches.contains(onto, commit)) return { why: null };

  const share = shareOf(state, undefined, { first: false, kept: limits.reservePercent });
  // When the cap leaves nothing, only a merge that asks no model is possible.
  const budget = share.ok ? share.budget : { maxSteps: 1 };
  const of = { branch: branch.name, commit, title };
  const merge = { branch: branch.name, commit, into };
  const origin: MissionDispatch = {
    ...serviceTask(state, { callID: newID("call"), phase: "merge", brief: commit, reserved: budget, merge }, fence),
    approve: state.approve.filter((one) => one === "landing"),
    attachments: [],
    onto,
    merge: { of, checks: state.checks },
  };
  return tasks.create(
    directory,
    {
      title: `Merge ${branch.name} into ${into}`,
      request: mergeRequest(of, into),
      productPillar: state.productPillar,
      priority: state.priority,
      source: "mission",
      landing: "commit",
      ...(Object.keys(state.limits).length === 0 ? {} : { limits: state.limits }),
      ...(budget === null ? {} : { budget }),
    },
    once,
    origin,
  );
};

/** Why a person cannot have the branch merged now; undefined: they can. */
export const mergeRefusal = (state: MissionState): string | undefined => {
  if (state.repository !== null) return "its branch is on the remote, and is proposed as a pull request there";
  if (!hasOwnBranch(state)) return "its phases land on the project's branch, separately";
  if (state.aborted !== null) return "it was aborted, and hears of no Task's end: wake it first";
  const running = state.tasks.find(isRunning);
  if (running?.merge !== undefined) return `the Task ${running.taskID} merges it already`;
  if (running !== undefined) return `its Task ${running.taskID} runs`;
  const { state: word } = standingOf(state);
  return word === "working" || word === "waiting" || word === "asking" ? `it is not done: it is ${word}` : undefined;
};

/** The merge that a person asks for. */
export const createMerge =
  (
    deps: MergeDeps & { store: Pick<Store, "nodes"> },
    stateOf: (directory: string | undefined, missionID: string) => Promise<MissionState>,
  ): Missions["merge"] =>
  async (directory, missionID, once) => {
    for (;;) {
      const state = await stateOf(directory, missionID);
      await expectLocalFiles(deps.store.nodes, state.sessionID);
      const bar = mergeRefusal(state);
      if (bar !== undefined) throw notMergeable(missionID, bar);
      try {
        const begun = await dispatchMerge(deps, state, { once });
        if (!("why" in begun)) return begun;
        throw notMergeable(missionID, begun.why ?? "the project's branch has all of it already");
      } catch (error) {
        if (!(error instanceof MissionMovedOn)) throw error;
      }
    }
  };

const notMergeable = (missionID: string, reason: string): ServiceError =>
  new ServiceError("not_mergeable", `${missionID} cannot be merged: ${reason}.`, { details: { missionID, reason } });

const longestReason = 1000;

/** Of a Mission that is done: begins the merge of its branch, or records why there is none. */
export const mergeWhenDone = async (run: MissionRun): Promise<void> => {
  const state = run.state();
  try {
    const begun = await dispatchMerge(run, state, { fence: run.fence });
    if ("why" in begun) await unmerged(run, begun.why);
    else await run.record([]);
  } catch (error) {
    if (error instanceof MissionMovedOn) {
      if (error.reason === "fence") throw new ClaimLost();
      await run.record([]);
      return;
    }
    run.signal.throwIfAborted();
    if (!(error instanceof ServiceError) || error.retryable) throw error;
    await unmerged(run, messageOf(error));
  }
};

const unmerged = (run: MissionRun, why: string | null): Promise<unknown> =>
  run.record([
    { type: "mission.unmerged", data: { sessionID: run.stream, reason: why?.slice(0, longestReason) ?? null } },
  ]);
