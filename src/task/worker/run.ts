import { setTimeout as wait } from "node:timers/promises";
import type { StreamID } from "../../domain/event.ts";
import { remoteOf } from "../../domain/state/task.ts";
import type { End } from "../../domain/task/end.ts";
import type { Step } from "../../domain/task/next/step.ts";
import { createRepeats, lacksDescriptors, mostShortages } from "../../engine/transient-failure.ts";
import { createStuckGuard } from "../../engine/stuck.ts";
import { messageOf, ServiceError } from "../../error.ts";
import type { TurnFailure } from "../../protocol/event/conversation.ts";
import { ClaimLost, withClaim } from "../../store/claimed-stream.ts";
import { isFullAt } from "../../store/disk/disk.ts";
import { isFull } from "../../store/disk/full.ts";
import { unavailable } from "../../store/unavailable.ts";
import { TextLost } from "../../store/blob/text.ts";
import { LandingUnfinished, WorkspaceLost } from "../../workspace/error.ts";
import { GitDied } from "../../workspace/git/run.ts";
import type { Checkout } from "../../workspace/workspace.ts";
import { withoutAttachments } from "../workspace/attachment.ts";
import { requestPlanApproval, askSquad } from "../step/approve.ts";
import { baseline, check, feedback } from "../step/check.ts";
import { runContrast, reportUnprovenTests } from "../step/contrast.ts";
import { createSessionRunner } from "../session/runner.ts";
import { install } from "../step/install.ts";
import { land } from "../step/landing/land.ts";
import { openRequest, seeRequest } from "../step/landing/pull-request.ts";
import { push } from "../step/landing/push.ts";
import { openRun } from "./open.ts";
import type { Run, RunDeps } from "../run.ts";
import { merge } from "../step/landing/merge.ts";
import { refuse } from "../step/refuse.ts";
import { reopenWorkspace } from "../workspace/open.ts";
import { askOutput } from "../step/output.ts";
import { revert } from "../step/revert.ts";
import { accept, review, revise } from "../step/review.ts";
import { failNow, settle } from "../step/settle.ts";
import { tellSources } from "../step/sources.ts";
import { describe } from "../workspace/describe.ts";
import { commitTree } from "../workspace/commit.ts";
import { cutOffBorrowedObjects, clearSetIDBits } from "../workspace/clean-in-place.ts";
import { waitForAnswer } from "../step/ask.ts";

/**
 * Runs one Task: claims it, folds its log, and carries out `next` until there is nothing to do. This is the only way
 * in, and there is no resume path: a worker that died is replaced by one that runs this from the start.
 */
export const createRunTask = (deps: RunDeps) => {
  const repeats = createRepeats(
    (error) => (error instanceof GitDied ? mostGitDeaths : lacksDescriptors(error) ? mostShortages : 0),
    (error) => `${error instanceof GitDied ? "git died: " : ""}${messageOf(error)}`,
  );
  return async (stream: StreamID, signal: AbortSignal): Promise<void> => {
    const urgent = (await deps.store.state(stream))?.cancel?.mode === "stop";
    // While the disk is full, no Task is taken up and nothing is written, except to end a Task.
    if (!urgent && deps.disk.shortage() !== undefined) return;
    await withClaim({ ...deps, urgent }, stream, signal, async (claim, stop, scope) => {
      const run = await openRun(deps, claim, stop, scope);
      if (run === undefined) return;
      scope.defer(() => withoutAttachments(run));
      const beginsAnew = repeats.begin(stream);
      await move(run).catch(async (error: unknown) => {
        if (signal.aborted || !(await beginsAnew(error, run.record))) return failUnexpectedly(run, error);
        throw error;
      });
    });
  };
};

/**
 * How many runs in a row may fail because git was killed from outside, as the kernel does when memory runs out. Each
 * time the step is carried out again, as after a death of the service. Then the Task fails.
 */
const mostGitDeaths = 3;

const move = async (run: Run): Promise<void> => {
  const runner = await createSessionRunner(run);
  const beside = (checkout: Checkout, signal: AbortSignal) =>
    runContrast(run, { test: runner.testCommand }, checkout, signal);
  const notStuck = createStuckGuard({
    version: () => run.state().version,
    record: run.record,
    sleep: (ms) => wait(ms, undefined, { signal: run.signal }),
  });
  for (;;) {
    run.engine.betweenSteps(run.stream);
    run.signal.throwIfAborted();
    await run.space();
    const step = runner.nextStep();
    if (!ending.has(step.kind)) await notStuck(step.kind);
    if (step.kind === "settle" || step.kind === "install") await run.baseline.stop();
    // Steps that read the files or end the Task must not run next to background commands.
    if (step.kind !== "turn" && step.kind !== "recover")
      await Promise.all([run.background.end(), run.mcp.end(), run.checkers.end()]);
    // A Task may wait for days, and this node may be gone by then.
    if (step.kind === "ask" || step.kind === "wait") await run.checkpoints.now();
    else if (step.kind !== "turn" && step.kind !== "recover") await run.checkpoints.end();
    switch (step.kind) {
      case "done":
        return;
      case "renew":
        await reopenWorkspace(run);
        break;
      case "recover":
        await runner.recoverOrchestrator();
        break;
      case "baseline":
        await baseline(run, step.checks);
        break;
      case "ask":
        if (await waitForAnswer(run, step.until)) return;
        break;
      case "approve":
        await (step.of === "plan" ? requestPlanApproval : askSquad)(run);
        break;
      case "turn":
        run.leaveLandingTurn();
        await runner.orchestrate(step.last);
        if (run.engine.drains()) await run.checkpoints.now();
        break;
      case "merge":
        await merge(run, runner.retries());
        break;
      case "revert":
        await revert(run);
        break;
      case "wait":
        return;
      case "commit": {
        const over = await run.bound.failure();
        if (over === undefined) await describe(run);
        const failure = over ?? (await commitTree(run));
        if (failure !== undefined) await settle(run, { lifecycleStatus: "failed", failure });
        break;
      }
      case "refuse":
        await refuse(run);
        break;
      case "check":
        await check(run, step.checks, step.contrast === true ? beside : undefined);
        break;
      case "contrast":
        await check(run, [], beside);
        break;
      case "contrast-same":
        await reportUnprovenTests(run);
        break;
      case "sources":
        runner.lookedAtSources();
        await tellSources(run);
        break;
      case "output":
        await askOutput(run);
        break;
      case "propose":
        await run.record([{ type: "checks.found", data: { checks: step.checks } }], { decidedAt: run.state().version });
        break;
      case "compare":
        await run.baseline.settled();
        break;
      case "feedback":
        await feedback(run, step.failed);
        break;
      case "review":
        await review(run, runner, step);
        break;
      case "revise":
        await revise(run, step.slices, step.failed);
        break;
      case "accept":
        await accept(run);
        break;
      case "land":
        await (remoteOf(run.state()) === null ? land : push)(run, runner.retries());
        break;
      case "open-request":
        await openRequest(run);
        break;
      case "see-request":
        await seeRequest(run);
        break;
      case "install":
        await install(run, run.manager);
        break;
      case "settle":
        await withoutAttachments(run);
        await clearSetIDBits(run);
        cutOffBorrowedObjects(run);
        await settle(run, await endOf(run, step.end));
        break;
    }
  }
};

/** Steps that end the run, or wait for something outside of it, without recording anything. */
const ending: ReadonlySet<Step["kind"]> = new Set(["done", "wait", "ask"]);

/** When a failed Task has outgrown its disk space, that is named as the failure, whatever else failed. */
const endOf = async (run: Run, end: End): Promise<End> =>
  end.lifecycleStatus === "failed" ? { ...end, failure: (await run.bound.failure()) ?? end.failure } : end;

/**
 * An unforeseen error fails this Task only. Errors that are worth a retry are thrown, and the engine tries again later.
 */
const failUnexpectedly = async (run: Run, error: unknown): Promise<void> => {
  run.signal.throwIfAborted();
  if (error instanceof ClaimLost || (error instanceof ServiceError && error.retryable)) throw error;
  if (isFull(error)) return failForSpace(run, error);
  if (error instanceof LandingUnfinished) {
    // Without this fact the next run would assume that the service died during the landing.
    await run.record([
      { type: "run.stopped", data: { reason: `the landing still has to be completed: ${error.message}` } },
    ]);
    throw error;
  }
  run.log.error(
    { task: run.stream, error: messageOf(error), stack: error instanceof Error ? error.stack : undefined },
    "a Task failed unexpectedly",
  );
  await run.baseline.stop();
  await clearSetIDBits(run);
  cutOffBorrowedObjects(run);
  const named = error instanceof ServiceError || error instanceof WorkspaceLost || error instanceof TextLost;
  const internal = {
    code: named ? error.code : "internal",
    message: messageOf(error),
    retryable: true,
    remedy: "Read the service's log, then send a message to try again.",
  };
  await failOrWait(run, (await run.bound.failure()) ?? internal);
};

/** Fails the Task. If its landing cannot be taken back yet, the Task does not fail, and the next run tries again. */
const failOrWait = (run: Run, failure: TurnFailure): Promise<void> =>
  failNow(run, failure).catch(async (error: unknown) => {
    run.signal.throwIfAborted();
    // As in `failUnexpectedly`: the next run must not assume that the service died.
    if (run.state().landingStarted !== null && !(error instanceof ClaimLost || error instanceof ServiceError))
      await run.record([
        { type: "run.stopped", data: { reason: `the landing still has to be taken back: ${messageOf(error)}` } },
      ]);
    throw error;
  });

/**
 * Handles a step that found no space on a disk. While that disk is full, the step is tried again from its beginning.
 * When the disk has space, but less than the step needs, the Task fails.
 */
const failForSpace = async (run: Run, error: unknown): Promise<void> => {
  const { directory } = run.state();
  await run.disk.look();
  const paused = run.disk.shortage();
  const reason = paused ?? ((await isFullAt(directory)) ? "waits for space on the disk of the project" : undefined);
  if (reason !== undefined) {
    await run.record([{ type: "run.paused", data: { code: "disk_low", reason } }], { once: true });
    throw unavailable(error);
  }
  await failOrWait(run, {
    code: "disk_low",
    message: `There is not enough disk space for the work: ${messageOf(error)}`,
    retryable: true,
    remedy: "Free space, then send a message to continue.",
  });
};
