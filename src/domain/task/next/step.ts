import type { CheckSpec, ReviewCheck, RunCheck } from "../../../protocol/check.ts";
import type { TurnFailure } from "../../../protocol/event/conversation.ts";
import type { CheckRun, Slice } from "../../state/task.ts";
import type { End } from "../end.ts";

/** The steps that a Task can take next, and the settings that the decision depends on. */

export type Step =
  /** The Task is settled: nothing to do. */
  | { kind: "done" }
  /**
   * Deal with the open calls of an earlier run: calls whose ask was answered continue, read-only calls run again,
   * others are reported as interrupted.
   */
  | { kind: "recover" }
  /** Every open call waits for an answer: nothing to do until one comes. `until`: when the first ask times out. */
  | { kind: "ask"; until: string }
  /** Ask a person for approval. A landing asks for its own approval, where it is planned. */
  | { kind: "approve"; of: "plan" | "squad" }
  /** A landing finished while a message was unread: make a new workspace on the new base. */
  | { kind: "renew" }
  /** Run checks with `baseline: true` on the base tree, before the work. */
  | { kind: "baseline"; checks: RunCheck[] }
  | { kind: "turn"; last: boolean }
  /** Revert what another Task landed, and commit the result. */
  | { kind: "revert" }
  /** Merge the branch of a Mission, and commit the result. */
  | { kind: "merge" }
  /** The provider's quota is used up: nothing to do until the Task is due again. */
  | { kind: "wait" }
  /** Commit the tree on disk to the Task's branch. */
  | { kind: "commit" }
  /** Return a change to the agent because it touches files that a rule forbids to change. */
  | { kind: "refuse" }
  /** `contrast`: meanwhile, run the changed tests on the base. */
  | { kind: "check"; checks: RunCheck[]; contrast?: true }
  /** Run the tests that the change adds or changes on the base. */
  | { kind: "contrast" }
  /** Tell the agent that its tests pass on the base, although a check failed there. */
  | { kind: "contrast-same" }
  /** Check the places that an answer without a change cites, and tell the agent which of them no agent has read. */
  | { kind: "sources" }
  /** Ask the agent for the output that the request requires. */
  | { kind: "output" }
  /** The request names no checks: use those detected in the project. */
  | { kind: "propose"; checks: CheckSpec[] }
  /** Wait for the results of the project's own checks on the base. */
  | { kind: "compare" }
  /** Return failed checks to the agent. */
  | { kind: "feedback"; failed: CheckRun[] }
  /** Have a session that did not write these slices review them, and judge the criteria of these checks. */
  | { kind: "review"; slices: string[]; checks: ReviewCheck[] }
  /** Return the findings of a review to the agent. */
  | { kind: "revise"; slices: Slice[]; failed: CheckRun[] }
  | { kind: "accept"; slices: string[] }
  | { kind: "land" }
  /** Open the pull request of what landed, or bring it up to date. */
  | { kind: "open-request" }
  /** Ask the forge what became of the pull request, before a follow-up works on its branch. */
  | { kind: "see-request" }
  /** Install the squad that this Task produced, instead of a landing. */
  | { kind: "install" }
  | { kind: "settle"; end: End };

export type StepPolicy = {
  checkRounds: number;
  /** The project's own checks; empty where they may not run. */
  own: readonly CheckSpec[];
  /** Ids of own checks that did not end when they last ran before a change, or that take long on the base now. */
  doubted: readonly string[];
  /** Whether changed tests may run on the base. */
  contrast: boolean;
  /** Whether the places that the last reply cites are still to be checked. */
  sources: boolean;
  /** Whether this Task's model may try again after failed checks. */
  retries: boolean;
  /** Whether this Task's model makes its own plan; if not, the request is the plan. */
  plans: boolean;
  /** Whether the squad has a reviewer. */
  reviews: boolean;
  /**
   * Why no further request to the model is allowed: a cap is reached, or the model repeats itself; undefined: allowed.
   */
  stop: TurnFailure | undefined;
};
