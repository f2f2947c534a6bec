import { notRevertible } from "../../domain/task/by-service.ts";
import type { Run } from "../run.ts";
import { commitTree } from "../workspace/commit.ts";
import { settle } from "./settle.ts";

/**
 * Takes back what another Task landed, on this Task's base, and commits the result like an agent's work: the same
 * rules, checks and landing apply. Records `tree.committed`; if the run dies before that, the next one reverts again.
 */
export const revert = async (run: Run): Promise<void> => {
  const { revertOf } = run.state();
  if (revertOf === null) throw new Error("Expected a Task that reverts another.");
  const reverted = await run.workspaces.revert(await run.workspace(), revertOf.commits);
  const failure = reverted.ok ? await commitTree(run) : notRevertible(revertOf.title, reverted);
  if (failure !== undefined) await settle(run, { lifecycleStatus: "failed", failure });
};
