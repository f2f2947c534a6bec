import { isRun } from "../../../protocol/check.ts";
import type { TurnFailure } from "../../../protocol/event/conversation.ts";
import type { EventData } from "../../../protocol/event/event.ts";
import { checksFailed, failedOf, isDue } from "../../evidence/check.ts";
import { isPlanDue, mayInstall } from "../../session/approval.ts";
import { waitsUntil } from "../../session/ask.ts";
import { isMidway } from "../../session/session.ts";
import { isChanged, isUnanswered, type TaskState } from "../../state/task.ts";
import { rootOf } from "../../state/stream.ts";
import { nextApprovalStep } from "./approval.ts";
import { cancelledEnd } from "../end.ts";
import { nextOwnCheckStep } from "./own-check.ts";
import { nextOutputStep } from "./output.ts";
import { nextReviewStep } from "./review.ts";
import type { StepPolicy, Step } from "./step.ts";
import { isProposalDue, isPullRequestStale } from "../landing.ts";
import { gitTampered } from "../tampered.ts";

/**
 * Decides what a Task does next, from its fold alone. It is called again after every step. There is no separate resume
 * path: when a worker dies, its replacement folds the log and asks the same question.
 */
export const next = (state: TaskState, rules: StepPolicy): Step => {
  if (state.lifecycle !== "active") return { kind: "done" };
  if (state.landingStarted !== null) return { kind: "land" };
  if (state.installing !== null) return { kind: "install" };
  if (state.cancel?.mode === "stop") return { kind: "settle", end: cancelledEnd(state.cancel) };
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
  if (state.abandoned !== null && state.cancel === null && !isUnanswered(state))
    return { kind: "settle", end: { lifecycleStatus: "failed", failure: givenUp(state.abandoned) } };
  if (isProposalDue(state)) return { kind: "open-request" };
  if (state.landed !== null)
    return isUnanswered(state) ? { kind: "renew" } : { kind: "settle", end: { lifecycleStatus: "completed" } };

  if (isPullRequestStale(state)) return { kind: "see-request" };

  const baseline = state.checks
    .filter(isRun)
    .filter((check) => check.baseline && state.baseline[check.id] === undefined);
  if (baseline.length > 0 && state.reply === null) return { kind: "baseline", checks: baseline };

  const { reply } = state;
  if (state.revertOf?.tried === false && state.cancel === null) return { kind: "revert" };
  if (state.mergeOf?.tried === false && state.cancel === null) return { kind: "merge" };
  const unanswered = isUnanswered(state);
  const wrapUp = state.cancel !== null;
  const planless = !rules.plans && !wrapUp && isPlanDue(state) && reply === null;
  if (planless) return nextApprovalStep(state) ?? { kind: "approve", of: "plan" };
  if (isMidway(reply) || (unanswered && !wrapUp)) {
    if (state.deferred !== null) return { kind: "wait" };
    if (rules.stop === undefined) return { kind: "turn", last: wrapUp };
    if (state.cancel === null) return { kind: "settle", end: { lifecycleStatus: "failed", failure: rules.stop } };
  }
  if (state.cancel !== null) return { kind: "settle", end: cancelledEnd(state.cancel) };
  if (reply?.failure) return { kind: "settle", end: { lifecycleStatus: "failed", failure: reply.failure } };

  const approval = nextApprovalStep(state);
  if (approval !== undefined) return approval;
  if (isPlanDue(state)) return { kind: "approve", of: "plan" };
  if (state.production !== null) return produce(state);
  if (state.judges) return nextOutputStep(state, rules) ?? { kind: "settle", end: { lifecycleStatus: "completed" } };

  if (state.workspace?.kind === "worktree" && state.touched) return { kind: "commit" };

  if (state.denied !== null)
    return rules.retries && state.round < rules.checkRounds
      ? { kind: "refuse" }
      : { kind: "settle", end: { lifecycleStatus: "failed", failure: changeDenied(state, state.denied) } };

  const output = nextOutputStep(state, rules);
  if (output !== undefined) return output;

  const run = state.checks.filter(isRun);
  const due = run.filter((check) => isDue(state, check));
  const contrast = rules.contrast && needsContrast(state);
  const beside = contrast ? { contrast: true as const } : {};
  if (due.length > 0) return { kind: "check", checks: due, ...beside };

  const failed = failedOf(state, run);
  if (failed.length > 0)
    return rules.retries && state.round < rules.checkRounds
      ? { kind: "feedback", failed }
      : { kind: "settle", end: { lifecycleStatus: "failed", failure: checksFailed(state, failed) } };

  const own = nextOwnCheckStep(state, rules);
  if (own !== undefined) return own.kind === "check" ? { ...own, ...beside } : own;

  // No agent has worked on the returned conflict: the landing reports that, and there is nothing to review.
  if (state.conflictedAt === state.edits && isChanged(state)) return { kind: "land" };

  if (contrast) return { kind: "contrast" };
  if (rules.retries && isToldSame(state)) return { kind: "contrast-same" };

  const judged = nextReviewStep(state, rules);
  if (judged !== undefined) return judged;

  if (isChanged(state)) return { kind: "land" };
  if (rules.retries && rules.sources) return { kind: "sources" };
  return { kind: "settle", end: { lifecycleStatus: "completed" } };
};

/** The change has code and tests, and these tests have not yet run on the base. */
const needsContrast = (state: TaskState): boolean =>
  state.wantsContrast && isChanged(state) && state.tree?.tested === true && state.contrast?.tree !== state.tree.tree;

/**
 * A check failed on the base, but the tests of the change passed there: they do not show the defect that the change
 * fixes.
 */
const isToldSame = (state: TaskState): boolean =>
  isChanged(state) &&
  !state.contrastTold &&
  state.contrast?.result === "same" &&
  state.contrast.tree === state.tree?.tree &&
  Object.values(state.baseline).some(({ state: result }) => result === "failed");

/** A Task that produces a squad lands the package and nothing else. */
const produce = (state: TaskState): Step => {
  const { staged, installed, production } = state;
  if (staged !== null) {
    if (staged.squad.digest === installed?.squad.digest)
      return { kind: "settle", end: { lifecycleStatus: "completed" } };
    return mayInstall(state) ? { kind: "install" } : { kind: "approve", of: "squad" };
  }
  return {
    kind: "settle",
    end: {
      lifecycleStatus: "failed",
      failure: {
        code: "nothing_staged",
        message: `The agent finished without a package: nothing was staged for the squad ${production?.squad}. Nothing was installed.`,
        retryable: true,
        remedy: "Send a message that describes the squad.",
      },
    },
  };
};

const changeDenied = ({ workspace }: TaskState, { files, more }: EventData["change.denied"]): TurnFailure => {
  const named = files.slice(0, 10).map(({ path, rule }) => `${path} (${rule})`);
  const rest = files.length - named.length + more;
  return {
    code: "change_denied",
    message: `The work changes files that a rule forbids to change: ${named.join(", ")}${rest === 0 ? "" : ` and ${rest} more`}. Nothing landed.`,
    retryable: false,
    remedy: `Send a message that says how to continue without changing them, or change the rule first${workspace?.branch ? `; the work is on ${workspace.branch}` : ""}.`,
  };
};

const givenUp = ({ why, tried }: NonNullable<TaskState["abandoned"]>): TurnFailure => ({
  code: "given_up",
  message: `The agent gave up: ${why}\n\nTried: ${tried}`,
  retryable: false,
  remedy: "Send a message that changes the request or says how it can be done, or create a new Task with other checks.",
});

const setupFailed = ({ run, reason, tail }: EventData["setup.finished"]): TurnFailure => ({
  code: "setup_failed",
  message: `workspace.setup of the service's configuration failed in this Task's workspace: \`${run}\`, ${reason ?? "no exit"}.${tail === "" ? "" : `\n\n${tail}`}`,
  retryable: false,
  remedy:
    "Read its log. If it needs the network, set workspace.setupNetwork in the service's configuration; fix the command or the project, then send a message to try again.",
});
