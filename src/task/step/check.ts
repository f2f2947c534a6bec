import type { CheckResult } from "../../check/check.ts";
import type { DomainEvent } from "../../domain/event.ts";
import { specsOf, subjectOf } from "../../domain/evidence/check.ts";
import { type CheckRun, hasSnapshot } from "../../domain/state/task.ts";
import { newID } from "../../id.ts";
import { aboutOf, type RunCheck } from "../../protocol/check.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { Artifact } from "../../protocol/task/status.ts";
import type { Checkout } from "../../workspace/workspace.ts";
import type { Run } from "../run.ts";
import { unfinishedOnBaseResult, type Result, resultOf } from "./check-result.ts";
import { resultKey } from "../session/check-key.ts";
import { messageFromService } from "./message.ts";

/** Runs checks: on the base before the work, and on the tree that will land. */

export const baseline = (run: Run, checks: readonly RunCheck[]): Promise<void> => runAll(run, checks, "base");

/**
 * `beside`: runs concurrently with the checks when each has its own files, otherwise after them; it is aborted when a
 * required check fails.
 */
export const check = (run: Run, checks: readonly RunCheck[], beside?: Beside): Promise<void> =>
  runAll(run, checks, "work", beside);

type Beside = (checkout: Checkout, signal: AbortSignal) => Promise<void>;

/** How many checks of one Task run concurrently when each has its own files. */
const atOnce = 4;

const runAll = async (run: Run, checks: readonly RunCheck[], on: "base" | "work", beside?: Beside): Promise<void> => {
  await run.workspace();
  const subject = subjectOf(run.state(), on);
  const checkout = await run.checkout.at(subject.commit);
  const queue = [...checks];
  const stop = new AbortController();
  const work = async () => {
    for (let spec = queue.shift(); spec !== undefined; spec = queue.shift()) {
      using _slot = await run.slot();
      const about = { checkID: spec.id, on, round: run.state().round, ...subject };
      await run.record([{ type: "check.started", data: about }]);
      const result =
        (on === "work" ? unfinishedOnBaseResult(run, spec) : undefined) ?? (await resultOf(run, spec, checkout, on));
      await finish(run, spec, about, result);
      if (spec.required && result.state !== "passed") stop.abort();
      // A message came in: the agent reads it first, and the remaining checks run on the result.
      if (on === "work" && run.state().input > (run.state().reply?.read ?? 0)) queue.length = 0;
    }
  };
  const also = async () => {
    if (checkout !== undefined && !stop.signal.aborted)
      await beside?.(checkout, AbortSignal.any([run.signal, stop.signal]));
  };
  const apart = checkout?.isolated === true;
  const workers = Array.from({ length: apart ? atOnce : 1 }, work);
  const ends = await Promise.allSettled(apart ? [...workers, also()] : workers);
  for (const end of ends) if (end.status === "rejected") throw end.reason;
  if (!apart) await also();
};

type About = EventData["check.started"];
/** Records a result with its log, and keeps that of a project's check for other Tasks. */
export const finish = async (run: Run, spec: RunCheck, about: About, result: Result): Promise<void> => {
  const { state, exitCode, tail, reason } = result;
  const log = await run.store.blobs.put(Buffer.from(result.output));
  const durationMs = Math.round(result.durationMs);
  const more = {
    ...(result.flaky ? { flaky: true as const } : {}),
    ...(result.unfinished === true ? { unfinished: true as const } : {}),
    ...(result.redefined.length === 0 ? {} : { redefined: result.redefined }),
  };
  const { checkID, on, round } = about;
  const pictures = await kept(run, result.artifacts ?? [], { kind: "check", checkID, on, round });
  await run.record([
    ...pictures,
    { type: "check.finished", data: { ...about, state, exitCode, durationMs, log, tail, reason, ...more } },
  ]);
  const own = run.state().ownChecks.some(({ id }) => id === checkID);
  // A result that depends on the Task's changes to the check's definition tells other Tasks nothing about the tree.
  if (!own || about.tree === null || state === "error" || result.redefined.length > 0 || run.bound.isOver()) return;
  const key = resultKey(run, await run.workspace(), spec, about.tree);
  const ranFor = run.stream;
  const told = { tail: run.store.redact(tail), reason: reason === null ? null : run.store.redact(reason) };
  run.checkResults.keep(key, { state, exitCode, durationMs, log, ...told, ranFor, ...more });
};

/** A check's pictures as artifact events; those beyond `limits.pictures` are dropped. */
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

/** Reports failed checks to the agent, with the end of their output unless the agent was told it before. */
export const feedback = async (run: Run, failed: readonly CheckRun[]): Promise<void> => {
  const state = run.state();
  const nameOf = ({ checkID }: CheckRun) => {
    const spec = specsOf(state).find(({ id }) => id === checkID);
    return `\`${spec === undefined ? checkID : aboutOf(spec)}\``;
  };
  const round = `(round ${state.round + 1} of ${run.limits.checkRounds})`;
  if (failed.every((result) => result.round < state.round)) {
    const names = failed.map(nameOf).join(", ");
    const text = `Nothing changed in the files since the checks failed, so they were not run again: ${names} ${failed.length === 1 ? "is" : "are"} as red as you were told above ${round}. Change what makes ${failed.length === 1 ? "it" : "them"} fail, or say why that cannot be done.`;
    await run.record([await messageFromService(run, "checks", text)], { decidedAt: state.version });
    return;
  }
  const parts = failed.map(
    (result) =>
      `${nameOf(result)}: ${result.reason ?? "failed"}${result.tail.trim() === "" ? ", without any output" : `\n\n\`\`\`\n${result.tail}\n\`\`\``}`,
  );
  const alone =
    state.workspace?.snapshot === undefined || hasSnapshot(state)
      ? ""
      : " They ran on your change on top of the project's last commit, which is what lands: what its user has not committed was not there.";
  const found =
    state.checks.length > 0
      ? `The service ran the acceptance checks on your work. ${failed.length} of ${state.checks.length} failed ${round}.`
      : `The service ran the project's own checks on your work, in a fresh checkout. ${failed.length === 1 ? "One" : failed.length} that passed before your work ${failed.length === 1 ? "fails" : "fail"} now ${round}; what was red before is not counted.`;
  const text = `${found}${alone}\n\n${parts.join("\n\n")}\n\nFix the cause. The checks run again when you are done, and your last message then is the report of the whole work, in place of the one before. A check that cannot be met, whatever you do, is a reason for \`give_up\`: the Task fails then, and what you have done stays on its branch.`;
  await run.record([await messageFromService(run, "checks", text)], { decidedAt: state.version });
};
