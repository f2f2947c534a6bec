import type { Workspace } from "../workspace/workspace.ts";
import type { Run } from "./open.ts";

/** The Task's workspace: opened when it is on record, else made and put on record. */
export const openWorkspace = async (run: Run): Promise<Workspace> => {
  const { taskID, workspace, directory, isolation, landing } = run.state();
  if (workspace !== null && run.state().landed === null) return run.workspaces.open(taskID, workspace);
  const made = await run.workspaces.prepare({ taskID, directory, isolation, landing });
  await run.record([{ type: "workspace.prepared", data: made.prepared }]);
  return made;
};

/** A message came while the result landed: what follows starts from the new base. */
export const renew = async (run: Run): Promise<void> => {
  run.forgetWorkspace();
  await run.workspace();
};
