import type { Snapshot } from "../../protocol/event/workspace.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { Run } from "../run.ts";
import { withDiskBound } from "./disk-bound.ts";
import { recordDependencies, withSetup } from "./setup.ts";
import { withTamperGuard } from "./tamper.ts";

/** Opens the Task's workspace if it is recorded, otherwise creates and records it. */
export const openWorkspace = async (run: Run): Promise<Workspace> => {
  const { taskID, workspace, directory, isolation, landing } = run.state();
  if (workspace !== null && run.state().landed === null)
    return prepareCommands(
      run,
      await run.workspaces.open(taskID, workspace, run.state().tree?.commit ?? workspace.baseCommit ?? undefined),
    );
  const made = await run.workspaces.prepare({ taskID, directory, isolation, landing });
  const { snapshot } = made.prepared;
  const seen = snapshot === undefined ? {} : { snapshot: await keepSnapshot(run, snapshot) };
  await run.record([{ type: "workspace.prepared", data: { ...made.prepared, ...seen } }]);
  return prepareCommands(run, made);
};

const prepareCommands = async (run: Run, workspace: Workspace): Promise<Workspace> => {
  await recordDependencies(run, workspace);
  return withSetup(run, withDiskBound(run, withTamperGuard(run, workspace)));
};

/** A message came in while the result landed: the next work starts from the new base. */
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
