import type { CheckResult } from "../../check/check.ts";
import type { DomainEvent } from "../../domain/event.ts";
import { type CheckRun, hasSnapshot, type TaskState } from "../../domain/state/task.ts";
import { newID } from "../../id.ts";
import { aboutOf, type RunCheck } from "../../protocol/check.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { Artifact } from "../../protocol/task/status.ts";
import type { Run } from "../run.ts";
import { type Result, resultOf } from "./check-result.ts";
import { messageFromService } from "./message.ts";

/** Runs checks: on the base before the work, and on the tree that will land. */

export const baseline = (run: Run, checks: readonly RunCheck[]): Promise<void> => runAll(run, checks, "base");

export const check = (run: Run, checks: readonly RunCheck[]): Promise<void> => runAll(run, checks, "work");

/** Checks of one Task that run concurrently when each has its own files. */
const atOnce = 4;

const runAll = async (run: Run, checks: readonly RunCheck[], on: "base" | "work"): Promise<void> => {
  await run.workspace();
  const subject = subjectOf(run.state(), on);
  const checkout = await run.checkout.at(subject.commit);
  const queue = [...checks];
  const work = async () => {
    for (let spec = queue.shift(); spec !== undefined; spec = queue.shift()) {
      using _slot = await run.slot();
      const about = { checkID: spec.id, on, round: run.state().round, ...subject };
      await run.record([{ type: "check.started", data: about }]);
      await finish(run, about, await resultOf(run, spec, checkout, on));
      // A message came in: the agent reads it first, and the remaining checks run on the result.
      if (on === "work" && run.state().input > (run.state().reply?.read ?? 0)) queue.length = 0;
    }
  };
  const ends = await Promise.allSettled(Array.from({ length: checkout?.isolated === true ? atOnce : 1 }, work));
  for (const end of ends) if (end.status === "rejected") throw end.reason;
};

type About = EventData["check.started"];
const finish = async (run: Run, about: About, result: Result): Promise<void> => {
  const { state, exitCode, tail, reason } = result;
  const log = await run.store.blobs.put(Buffer.from(result.output));
  const durationMs = Math.round(result.durationMs);
  const more = {
    ...(result.flaky ? { flaky: true as const } : {}),
    ...(result.redefined.length === 0 ? {} : { redefined: result.redefined }),
  };
  const { checkID, on, round } = about;
  const pictures = await kept(run, result.artifacts ?? [], { kind: "check", checkID, on, round });
  await run.record([
    ...pictures,
    { type: "check.finished", data: { ...about, state, exitCode, durationMs, log, tail, reason, ...more } },
  ]);
};

/** A check's files as artifact events; those beyond `limits.pictures` are dropped. */
const kept = async (
  run: Run,
  shown: NonNullable<CheckResult["artifacts"]>,
  by: Artifact["by"],
): Promise<DomainEvent[]> => {
  const room = run.limits.pictures - run.state().artifacts.filter((artifact) => artifact.by.kind !== "call").length;
  return Promise.all(
    shown.slice(0, Math.max(0, room)).map(async ({ filename, title, mime, bytes }): Promise<DomainEvent> => {
      const blob = await run.store.blobs.put(bytes);
      return { type: "artifact.recorded", data: { artifactID: newID("art"), filename, title, mime, ...blob, by } };
    }),
  );
};

/** The commit and tree that a result is bound to; null where the Task works in place. */
export const subjectOf = (state: TaskState, on: "base" | "work"): { commit: string | null; tree: string | null } => {
  const { workspace, tree } = state;
  if (workspace?.kind !== "worktree") return { commit: null, tree: null };
  return on === "work" && tree !== null
    ? { commit: tree.commit, tree: tree.tree }
    : { commit: workspace.baseCommit, tree: workspace.baseTree };
};

/** Reports failed checks to the agent, with the end of their output. */
export const feedback = async (run: Run, failed: readonly CheckRun[]): Promise<void> => {
  const state = run.state();
  const parts = failed.map((result) => {
    const spec = state.checks.find((candidate) => candidate.id === result.checkID);
    return `\`${spec === undefined ? result.checkID : aboutOf(spec)}\`: ${result.reason ?? "failed"}\n\n\`\`\`\n${result.tail}\n\`\`\``;
  });
  const alone =
    state.workspace?.snapshot === undefined || hasSnapshot(state)
      ? ""
      : " They ran on your change on top of the project's last commit, which is what lands: what its user has not committed was not there.";
  const text = `The service ran the acceptance checks on your work. ${failed.length} of ${state.checks.length} failed (round ${state.round + 1} of ${run.limits.checkRounds}).${alone}\n\n${parts.join("\n\n")}\n\nFix the cause. The checks run again when you are done.`;
  await run.record([await messageFromService(run, "checks", text)], { decidedAt: state.version });
};
