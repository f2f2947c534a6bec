import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import { clearSetID } from "../../workspace/tamper/set-id.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { Run } from "../run.ts";

/**
 * Cleans up after a Task that worked in the user's directory. Set-ID bits are cleared, so that no file runs as the
 * service's user whoever starts it; repositories that borrow objects are cut off, so that none shows the next Task the
 * objects of another repository.
 */

/** Call it before a Task ends. Never throws. */
export const cutOffBorrowedObjects = (run: Run): void => {
  const { workspace, edits, open } = run.state();
  if (workspace?.kind !== "directory" || (edits === 0 && open.length === 0)) return;
  try {
    const paths = run.workspaces.putBorrowedAside(run.stream, workspace);
    if (paths.length > 0)
      run.log.warn({ task: run.stream, paths: paths.slice(0, 20) }, "repositories that borrow objects were cut off");
  } catch (error) {
    run.log.warn({ task: run.stream, error: messageOf(error) }, "repositories that borrow objects were not cut off");
  }
};

/** Call it after the commands of a Task that works in place. Never rejects, unless the signal aborts. */
export const clearAfter = async (
  workspace: Workspace,
  taskID: string,
  since: Date,
  { log, signal }: { log: Log; signal: AbortSignal },
): Promise<void> => {
  if (workspace.prepared.kind !== "directory") return;
  try {
    const paths = await clearSetID(workspace, since, signal);
    if (paths.length > 0)
      log.warn({ task: taskID, count: paths.length, paths: paths.slice(0, 20) }, "set-ID bits were cleared");
  } catch (error) {
    signal.throwIfAborted();
    const problem = { task: taskID, directory: workspace.root, error: messageOf(error) };
    log.warn(problem, "not all set-ID files could be found: find -type f -perm /6000 shows them");
  }
};

/**
 * Call it before a Task ends. Skips the search when the kernel has refused the bits during the whole attempt, that is,
 * when this is the attempt's only run.
 */
export const clearSetIDBits = async (run: Run): Promise<void> => {
  const { workspace, edits, open, createdAt, attemptStartedAt, time } = run.state();
  if (workspace?.kind !== "directory" || (edits === 0 && open.length === 0)) return;
  if (run.processes.refusesSetID && attemptStartedAt === time.since) return;
  try {
    await clearAfter(await run.workspace(), run.stream, new Date(attemptStartedAt ?? createdAt), run);
  } catch (error) {
    run.signal.throwIfAborted();
    run.log.warn({ task: run.stream, error: messageOf(error) }, "set-ID files were not searched for");
  }
};
