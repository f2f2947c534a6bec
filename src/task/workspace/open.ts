import { remoteOf } from "../../domain/state/task.ts";
import { branchName } from "../../domain/task/landing.ts";
import { pace } from "../../pace.ts";
import type { Snapshot } from "../../protocol/event/workspace.ts";
import { commonDirOf } from "../../repository/repository.ts";
import { WorkspaceLost } from "../../workspace/error.ts";
import type { PrepareRequest, Workspace } from "../../workspace/workspace.ts";
import type { Run } from "../run.ts";
import { withDiskBound } from "./disk-bound.ts";
import { baseOf, restore } from "./repository.ts";
import { recordDependencies, withSetup } from "./setup.ts";
import { withTamperGuard } from "./tamper.ts";

/** Opens the Task's workspace if it is recorded; otherwise creates and records it. */
export const openWorkspace = async (run: Run): Promise<Workspace> => {
  const { taskID, workspace, directory, isolation, landing, moved } = run.state();
  if (workspace !== null && moved !== null && run.state().landed === null) return recorded(run, await restore(run), {});
  if (workspace !== null && run.state().landed === null)
    return prepareCommands(
      run,
      await run.workspaces.open(taskID, workspace, run.state().tree?.commit ?? workspace.baseCommit ?? undefined),
    );
  const { earlier, revertOf, mission } = run.state();
  const left = earlier === null ? null : await run.workspaces.makeWay(taskID, earlier);
  const made = await run.workspaces.prepare({
    taskID,
    directory,
    isolation,
    landing: landing === "pull-request" ? "branch" : landing,
    ...(await namedBase(run)),
    // A revert takes back commits of the branch; the user's uncommitted changes have no part in it.
    ...(revertOf?.tried === false ? { committedOnly: true } : {}),
    ...(mission === null ? {} : { withoutSquads: true }),
  });
  return recorded(run, made, left === null ? {} : { before: left });
};

const recorded = async (run: Run, made: Workspace, before: { before?: string }): Promise<Workspace> => {
  const { snapshot, baseCommit } = made.prepared;
  const seen = snapshot === undefined ? {} : { snapshot: await keepSnapshot(run, snapshot) };
  const of = baseCommit === null ? {} : baseOf(run, baseCommit);
  const node = run.store.nodes === undefined ? {} : { node: run.store.nodes.name };
  await run.record([{ type: "workspace.prepared", data: { ...made.prepared, ...seen, ...before, ...of, ...node } }]);
  return prepareCommands(run, made);
};

const namedBase = async (run: Run): Promise<Pick<PrepareRequest, "base">> => {
  const { landing, onto, directory } = run.state();
  if (onto !== null) {
    const commit = await run.workspaces.branches(commonDirOf(run.repositories, run.state())).headOf(onto);
    if (commit === null)
      throw new WorkspaceLost(
        `Expected the branch ${branchName(onto)} in ${directory}, on which this is to land, got none.`,
      );
    return { base: { commit, targetRef: onto, named: true } };
  }
  if (remoteOf(run.state()) === null) return {};
  const { commit, tracking } = await run.base();
  return { base: { commit, targetRef: landing === "commit" ? tracking : null } };
};

const prepareCommands = async (run: Run, workspace: Workspace): Promise<Workspace> => {
  const { prepared } = workspace;
  // Each of these steps searches a directory that may hold very many files.
  await pace();
  if (prepared.kind === "directory") run.workspaces.recordBorrowed(run.stream, prepared);
  await pace();
  await recordDependencies(run, workspace);
  await pace();
  return withSetup(run, withDiskBound(run, withTamperGuard(run, workspace)));
};

/** Call it when a message came in while the result landed: the next work starts from the new base. */
export const reopenWorkspace = async (run: Run): Promise<void> => {
  run.forgetWorkspace();
  await run.workspace();
};

/** Many untracked paths are stored in a blob, because no event exceeds 64 KiB. */
export const keepSnapshot = async (run: Pick<Run, "store">, snapshot: Snapshot): Promise<Snapshot> => {
  if (!Array.isArray(snapshot.untracked)) return snapshot;
  const text = JSON.stringify(snapshot.untracked);
  if (text.length <= 16 * 1024) return snapshot;
  return { ...snapshot, untracked: { blob: await run.store.blobs.put(Buffer.from(text)) } };
};
