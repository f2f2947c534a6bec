import type { CheckSpec, ReviewCheck, RunCheck } from "../../protocol/check.ts";
import type { TurnFailure } from "../../protocol/event/conversation.ts";
import type { CheckRun, Slice } from "../state/task.ts";
import type { End } from "./end.ts";

/** The steps there are, and what decides between them. */

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
  | { kind: "baseline"; checks: RunCheck[] }
  | { kind: "turn"; last: boolean }
  /** The provider's quota is used up: nothing until the due mark. */
  | { kind: "wait" }
  /** The tree on disk becomes a commit on the Task's branch. */
  | { kind: "commit" }
  | { kind: "check"; checks: RunCheck[] }
  /** The request names no checks: the project's own run once, and decide nothing. */
  | { kind: "propose"; checks: CheckSpec[] }
  /** Failed checks go back to the agent. */
  | { kind: "feedback"; failed: CheckRun[] }
  /** Somebody who did not write it judges these slices, and the criteria of these checks. */
  | { kind: "review"; slices: string[]; checks: ReviewCheck[] }
  /** What a review found goes back to the agent. */
  | { kind: "revise"; slices: Slice[]; failed: CheckRun[] }
  | { kind: "accept"; slices: string[] }
  | { kind: "land" }
  /** The squad that this Task made is installed: its landing. */
  | { kind: "install" }
  | { kind: "settle"; end: End };

export type StepPolicy = {
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
