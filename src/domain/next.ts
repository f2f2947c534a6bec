import type { EventData, TurnFailure } from "../protocol/event.ts";
import { aboutOf, type CheckSpec } from "../protocol/check.ts";
import { cancelled, type End } from "./end.ts";
import { waitsUntil } from "./ask.ts";
import { isAcceptable, isOpen, isReviewed, needsReview, refusedOf, type Slice } from "./slices.ts";
import { type CheckRun, isChanged, isCurrent, rootOf, type TaskState } from "./task.ts";

/**
 * What a Task does next, from its facts alone. There is no resume path; whoever folds the log continues the Task.
 */

export type Step =
  /** Settled: nothing to do. */
  | { kind: "done" }
  /** Open calls of an earlier run: those that were answered go on, reading ones run again, others are interrupted. */
  | { kind: "recover" }
  /** Every open call waits for an answer: nothing to do until one comes, or until the first one's time is over. */
  | { kind: "ask"; until: string }
  /** A landing went by with a message unread: a new workspace on the new base. */
  | { kind: "renew" }
  /** Checks with `baseline: true` on the base tree, before the work. */
  | { kind: "baseline"; checks: CheckSpec[] }
  | { kind: "turn"; last: boolean }
  /** The provider's quota is used up: nothing until the due mark. */
  | { kind: "wait" }
  /** The tree on disk becomes a commit on the Task's branch. */
  | { kind: "commit" }
  | { kind: "check"; checks: CheckSpec[] }
  /** The request names no checks: the project's own run once, and decide nothing. */
  | { kind: "propose"; checks: CheckSpec[] }
  /** Failed checks go back to the agent. */
  | { kind: "feedback"; failed: CheckRun[] }
  /** Somebody who did not write it judges these slices. */
  | { kind: "review"; slices: string[] }
  /** What a review found goes back to the agent. */
  | { kind: "revise"; slices: Slice[] }
  | { kind: "accept"; slices: string[] }
  | { kind: "land" }
  | { kind: "settle"; end: End };

export type Rules = {
  checkRounds: number;
  /** The project's own checks, where they may run. */
  own: readonly CheckSpec[];
  /** Whether this Task's model may try again after red checks. */
  retries: boolean;
  /** Whether the squad has somebody who reviews. */
  reviews: boolean;
  /** What forbids another request to the model: a cap that is reached, or a circle. */
  stop: TurnFailure | undefined;
};

/**
 * What a Task does next, from its facts alone. Called again after every step; a worker that died is replaced by one
 * that asks the same question.
 */
export const next = (state: TaskState, rules: Rules): Step => {
  if (state.lifecycle !== "active") return { kind: "done" };
  if (state.landingStarted !== null) return { kind: "land" };
  if (state.cancel?.mode === "stop") return { kind: "settle", end: cancelled(state.cancel) };
  if (state.open.some(({ sessionID }) => sessionID === rootOf(state))) {
    const until = waitsUntil(state);
    if (until !== undefined) return { kind: "ask", until };
    return state.deferred === null ? { kind: "recover" } : { kind: "wait" };
  }
  if (state.tampered !== null)
    return { kind: "settle", end: { lifecycleStatus: "failed", failure: gitTampered(state.tampered) } };
  const { setup } = state;
  if (setup?.finished?.state === "failed")
    return { kind: "settle", end: { lifecycleStatus: "failed", failure: setupFailed(setup.finished) } };
  if (state.landed !== null)
    return state.reply !== null && state.input > state.reply.read
      ? { kind: "renew" }
      : { kind: "settle", end: { lifecycleStatus: "completed" } };

  const baseline = state.checks.filter((check) => check.baseline && state.baseline[check.id] === undefined);
  if (baseline.length > 0 && state.reply === null) return { kind: "baseline", checks: baseline };

  const { reply } = state;
  const unanswered = reply === null || state.input > reply.read;
  const wrapUp = state.cancel !== null;
  if (reply?.finish === "calls" || reply?.finish === "length" || (unanswered && !wrapUp)) {
    if (state.deferred !== null) return { kind: "wait" };
    if (rules.stop === undefined) return { kind: "turn", last: wrapUp };
    if (state.cancel === null) return { kind: "settle", end: { lifecycleStatus: "failed", failure: rules.stop } };
  }
  if (state.cancel !== null) return { kind: "settle", end: cancelled(state.cancel) };
  if (reply?.failure) return { kind: "settle", end: { lifecycleStatus: "failed", failure: reply.failure } };

  if (state.workspace?.kind === "worktree" && state.touched) return { kind: "commit" };

  const due = state.checks.filter((check) => {
    const result = state.results[check.id];
    return result === undefined || !isCurrent(state, result);
  });
  if (due.length > 0) return { kind: "check", checks: due };

  const failed = state.checks.flatMap((check) => {
    const result = state.results[check.id];
    return check.required && result !== undefined && result.state !== "passed" ? [result] : [];
  });
  if (failed.length > 0)
    return rules.retries && state.round < rules.checkRounds
      ? { kind: "feedback", failed }
      : { kind: "settle", end: { lifecycleStatus: "failed", failure: checksFailed(state, failed) } };

  if (isChanged(state) && state.checks.length === 0 && rules.own.length > 0) {
    if (state.own.length === 0) return { kind: "propose", checks: [...rules.own] };
    const untold = state.own.filter(({ id }) => state.results[id] === undefined);
    if (untold.length > 0) return { kind: "check", checks: untold };
  }

  const judged = judge(state, rules);
  if (judged !== undefined) return judged;

  if (isChanged(state)) return { kind: "land" };
  return { kind: "settle", end: { lifecycleStatus: "completed" } };
};

/** What is still to be said of the slices before the result may land; undefined: nothing. */
const judge = (state: TaskState, rules: Rules): Step | undefined => {
  if (!rules.reviews) return undefined;
  // A review that was begun is ended first, whatever it came to.
  const begun = state.sessions.find(({ purpose, end }) => purpose === "review" && end === null);
  if (begun !== undefined)
    return state.deferred === null ? { kind: "review", slices: begun.sliceIDs } : { kind: "wait" };
  const slices = state.slices.filter((slice) => isOpen(slice) && needsReview(state, slice));
  const ids = (some: readonly Slice[]) => some.map(({ sliceID }) => sliceID);
  const unreviewed = slices.filter((slice) => !isReviewed(state, slice));
  if (unreviewed.length > 0)
    return state.deferred === null ? { kind: "review", slices: ids(unreviewed) } : { kind: "wait" };
  const refused = refusedOf(state);
  if (refused.length > 0) {
    const unclear = refused.every(({ review }) => review?.verdict === "inconclusive");
    return rules.retries && !unclear && state.round < rules.checkRounds
      ? { kind: "revise", slices: refused }
      : { kind: "settle", end: { lifecycleStatus: "failed", failure: reviewRefused(state, refused, unclear) } };
  }
  const accepted = slices.filter((slice) => isAcceptable(state, slice));
  return accepted.length > 0 ? { kind: "accept", slices: ids(accepted) } : undefined;
};

const reviewRefused = (state: TaskState, refused: readonly Slice[], unclear: boolean): TurnFailure => ({
  code: unclear ? "review_inconclusive" : "review_rejected",
  message: `The agents finished and the checks passed; the review ${unclear ? "could not tell whether it is done" : "did not accept it"}: ${refused
    .map(
      ({ contract, review }) =>
        `"${contract.title}": ${review?.notes || (review?.verdict === "accepted" ? "nothing was seen of it" : "no reason given")}`,
    )
    .join("; ")
    .slice(0, 4000)}`,
  retryable: unclear,
  remedy: `${unclear ? "Send a message to have it reviewed again" : "Send a message that says how to go on"}${state.workspace?.branch ? `; the work is on ${state.workspace.branch}` : ""}.`,
});

const gitTampered = (files: NonNullable<TaskState["tampered"]>): TurnFailure => {
  const told = files.map(({ path, change, restored, kept }) => {
    const now = restored ? "put back as it was" : "left as it was found";
    return `${path} (${change}; ${now}${kept === null ? "" : `, what was found is in ${kept}`})`;
  });
  return {
    code: "git_tampered",
    message: `While a command of this Task ran, what Git runs programs by was changed: ${told.join("; ")}. Nothing landed.`,
    retryable: false,
    remedy: files.every(({ restored }) => restored)
      ? "Read what was found. If the change is yours, make it again; then send a message to continue."
      : "Look at these files before you run git in this project; then send a message to continue.",
  };
};

const setupFailed = ({ run, reason, tail }: EventData["setup.finished"]): TurnFailure => ({
  code: "setup_failed",
  message: `workspace.setup of the service's configuration failed in this Task's workspace: \`${run}\`, ${reason ?? "no exit"}.${tail === "" ? "" : `\n\n${tail}`}`,
  retryable: false,
  remedy:
    "Read its log. If it needs the network, set workspace.setupNetwork in the service's configuration; mend the command or the project, then send a message to try again.",
});

const checksFailed = (state: TaskState, failed: CheckRun[]): TurnFailure => {
  const named = failed.map((run) => {
    const check = state.checks.find((candidate) => candidate.id === run.checkID);
    return `\`${check === undefined ? run.checkID : aboutOf(check)}\`, ${run.reason ?? `exit ${run.exitCode}`}`;
  });
  return {
    code: "checks_failed",
    message: `The agents finished; ${failed.length} of ${state.checks.length} checks failed: ${named.join("; ")}.`,
    retryable: false,
    remedy: `Read the check's log, then send a message to continue${state.workspace?.branch ? `; the work is on ${state.workspace.branch}` : ""}.`,
  };
};
