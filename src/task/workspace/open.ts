import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Snapshot } from "../../protocol/event/workspace.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { createTamperGuard } from "../../workspace/worktree/tamper.ts";
import type { Run } from "../run.ts";
import { recordDependencies, withSetup } from "./setup.ts";

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
  return withSetup(run, withTamperGuard(run, workspace));
};

/**
 * For places where commands can write to the repository's own files (every tier but 1): compares those after each
 * command, and records `git.tampered` when they changed.
 */
export const withTamperGuard = <P extends Pick<Workspace, "run"> & Partial<Pick<Workspace, "startInteractive">>>(
  run: Run,
  place: P,
): P => {
  const { taskID, project } = run.state();
  if (run.sandbox.tier === 1 || !existsSync(join(project, "HEAD"))) return place;
  const fingerprint = createTamperGuard({ commonDir: project, taskID });
  const look = async () => {
    const files = fingerprint.end();
    if (files.length > 0) await run.record([{ type: "git.tampered", data: { files } }]);
  };
  const runCommand = place.run.bind(place);
  const startTalk = place.startInteractive?.bind(place);
  place.run = async (command) => {
    fingerprint.begin();
    const ran = await runCommand(command);
    await look();
    return ran;
  };
  if (startTalk !== undefined)
    place.startInteractive = async (talk) => {
      fingerprint.begin();
      const talking = await startTalk(talk);
      return { ...talking, gone: talking.gone.then(look) };
    };
  return place;
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
