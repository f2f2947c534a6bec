import { runCheck } from "../check/check.ts";
import { type CheckRun, hasSnapshot, type TaskState } from "../domain/task.ts";
import { newID } from "../id.ts";
import type { CheckSpec } from "../protocol/task.ts";
import type { Run } from "./open.ts";

/** Checks, run by the service: on the base before the work, and on the tree that will land. */

export const baseline = (run: Run, checks: readonly CheckSpec[]): Promise<void> => runAll(run, checks, "base");

export const check = (run: Run, checks: readonly CheckSpec[]): Promise<void> => runAll(run, checks, "work");

const runAll = async (run: Run, checks: readonly CheckSpec[], on: "base" | "work"): Promise<void> => {
  const workspace = await run.workspace();
  const { commit, tree } = subject(run.state(), on);
  for (const spec of checks) {
    const about = { checkID: spec.id, on, round: run.state().round, commit, tree };
    await run.record([{ type: "check.started", data: about }]);
    using _slot = await run.slot();
    const result = await runCheck(spec, workspace, {
      limits: run.limits,
      signal: run.signal,
      onOutput: (text) =>
        run.store.live.publish(
          {
            type: "tool.output",
            taskID: run.stream,
            at: run.now().toISOString(),
            data: { callID: spec.id, text },
          },
          run.state().position,
        ),
    });
    const log = await run.store.blobs.put(Buffer.from(result.output));
    // What a check leaves behind must not reach the next one, nor the project.
    if (commit !== null) await workspace.reset(commit);
    await run.record([
      {
        type: "check.finished",
        data: {
          ...about,
          state: result.state,
          exitCode: result.exitCode,
          durationMs: Math.round(result.durationMs),
          log,
          tail: result.tail,
          reason: result.reason,
        },
      },
    ]);
    if (on === "work" && run.state().input > (run.state().reply?.read ?? 0)) return;
  }
};

/** The commit and tree a result is about; null where the Task works in place. */
const subject = (state: TaskState, on: "base" | "work"): { commit: string | null; tree: string | null } => {
  const { workspace, tree } = state;
  if (workspace?.kind !== "worktree") return { commit: null, tree: null };
  return on === "work" && tree !== null
    ? { commit: tree.commit, tree: tree.tree }
    : { commit: workspace.baseCommit, tree: workspace.baseTree };
};

/** Failed checks go back to the agent, with the end of their output. */
export const feedback = async (run: Run, failed: readonly CheckRun[]): Promise<void> => {
  const state = run.state();
  const parts = failed.map((result) => {
    const spec = state.checks.find((candidate) => candidate.id === result.checkID);
    return `\`${spec?.run ?? result.checkID}\`: ${result.reason ?? "failed"}\n\n\`\`\`\n${result.tail}\n\`\`\``;
  });
  const alone =
    state.workspace?.snapshot === undefined || hasSnapshot(state)
      ? ""
      : " They ran on your change on top of the project's last commit, which is what lands: what its user has not committed was not there.";
  const text = `The service ran the acceptance checks on your work. ${failed.length} of ${state.checks.length} failed (round ${state.round + 1} of ${run.limits.checkRounds}).${alone}\n\n${parts.join("\n\n")}\n\nFix the cause. The checks run again when you are done.`;
  await run.record(
    [
      {
        type: "message.received",
        data: {
          messageID: newID("msg"),
          sessionID: state.sessions[0]?.sessionID ?? "",
          source: "checks",
          text,
          attachments: [],
          disposition: "steered",
        },
      },
    ],
    { judged: state.version },
  );
};
