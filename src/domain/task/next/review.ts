import type { TurnFailure } from "../../../protocol/event/conversation.ts";
import { isReviewCheck, type ReviewCheck } from "../../../protocol/check.ts";
import { checksFailed, failedOf, isDue } from "../../evidence/check.ts";
import type { StepPolicy, Step } from "./step.ts";
import { isAcceptable, isReviewed, needsReview, unacceptedSlices } from "../../evidence/slice.ts";
import { type TaskState, isOpenSlice, type Slice } from "../../state/task.ts";

/** The review step that slices, and checks with criteria to judge, need before the result may land; undefined: none. */
export const nextReviewStep = (state: TaskState, rules: StepPolicy): Step | undefined => {
  if (!rules.reviews) return undefined;
  const wait: Step = { kind: "wait" };
  const fail = (failure: TurnFailure): Step => ({ kind: "settle", end: { lifecycleStatus: "failed", failure } });
  const criteria = state.checks.filter(isReviewCheck);
  // A review that was begun is finished first, whatever its outcome.
  const begun = state.sessions.find(({ purpose, end }) => purpose === "review" && end === null);
  if (begun !== undefined) {
    const checks = criteria.filter(({ id }) => begun.checkIDs.includes(id));
    return state.deferred === null ? { kind: "review", slices: begun.sliceIDs, checks } : wait;
  }

  const slices = state.slices.filter((slice) => isOpenSlice(slice) && needsReview(state, slice));
  const unreviewed = slices.filter((slice) => !isReviewed(state, slice));
  const due = criteria.filter((check) => isDue(state, check) || isAnswered(state, check));
  if (unreviewed.length > 0 || due.length > 0) {
    if (state.deferred !== null) return wait;
    return rules.stop === undefined ? { kind: "review", slices: ids(unreviewed), checks: due } : fail(rules.stop);
  }

  const refused = unacceptedSlices(state);
  const failed = failedOf(state, criteria);
  if (refused.length > 0 || failed.length > 0) {
    const unclear = refused.every(({ review }) => review?.verdict === "inconclusive") && failed.every(isUnclear);
    if (rules.retries && !isBroken(state) && state.round < rules.checkRounds)
      return { kind: "revise", slices: refused, failed };
    return fail(failed.length > 0 ? checksFailed(state, failed) : reviewRefused(state, refused, unclear));
  }
  const accepted = slices.filter((slice) => isAcceptable(state, slice));
  return accepted.length > 0 ? { kind: "accept", slices: ids(accepted) } : undefined;
};

const ids = (some: readonly Slice[]): string[] => some.map(({ sliceID }) => sliceID);

/** Whether the agents have worked on a check that did not pass since it was judged. */
const isAnswered = (state: TaskState, { id }: ReviewCheck): boolean => {
  const result = state.results[id];
  return result !== undefined && result.state !== "passed" && result.round !== state.round;
};

/** The newest review failed because its model could not be asked: no further work by the agents changes that. */
const isBroken = ({ sessions }: TaskState): boolean =>
  sessions.findLast(({ purpose }) => purpose === "review")?.end?.outcome === "failed";

const isUnclear = ({ state }: { state: string }): boolean => state === "error";

const reviewRefused = (state: TaskState, refused: readonly Slice[], unclear: boolean): TurnFailure => ({
  code: unclear ? "review_inconclusive" : "review_rejected",
  message: `The agents finished and the checks passed; the review ${unclear ? "could not tell whether it is done" : "did not accept it"}: ${refused
    .map(
      ({ contract, review }) =>
        `"${contract.title}": ${review?.notes || (review?.verdict === "accepted" ? "there is no evidence for it" : "no reason given")}`,
    )
    .join("; ")
    .slice(0, 4000)}`,
  retryable: unclear,
  remedy: `${unclear ? "Send a message to request another review" : "Send a message that says how to continue"}${state.workspace?.branch ? `; the work is on ${state.workspace.branch}` : ""}.`,
});
