import { aboutOf, type CheckSpec } from "../../protocol/check.ts";
import type { TurnFailure } from "../../protocol/event/conversation.ts";
import type { CheckState } from "../../protocol/task/status.ts";
import { type CheckRun, isActive, isCurrent, isOfPresentFiles, type TaskState } from "../state/task.ts";

/** A Task's checks with their newest results, for status, board and archive. */

export const specsOf = ({ checks, ownChecks: own }: TaskState): CheckSpec[] => [...checks, ...own];

/** The checks to show. The project's own are shown while the Task is active, and afterwards if they ran on its work. */
const shown = (state: TaskState): CheckSpec[] => [
  ...state.checks,
  ...state.ownChecks.filter(({ id }) => isActive(state) || state.results[id] !== undefined),
];

const isOwn = ({ ownChecks: own }: TaskState, checkID: string): boolean => own.some(({ id }) => id === checkID);

/** The result on the base. The result of one of the project's own checks counts only for the present base. */
export const onBase = (state: TaskState, checkID: string): CheckRun | undefined => {
  const result = state.baseline[checkID];
  return result !== undefined && isOwn(state, checkID) && result.tree !== state.workspace?.baseTree
    ? undefined
    : result;
};

type Outcome = Pick<CheckRun, "state" | "reason" | "exitCode" | "unfinished">;

/** Whether a check could not run, or was ended before it had a result. */
export const isInconclusive = ({ state, unfinished }: Outcome): boolean => state === "error" || unfinished === true;

/** Whether a check ran to its end and did not pass. */
export const isRed = (result: Outcome): boolean => result.state === "failed" && !isInconclusive(result);

/** The cause of a result: the part of its reason before the first colon, without the remedy. */
export const causeOf = ({ reason }: Pick<Outcome, "reason">): string => (reason ?? "no result").split(": ")[0] ?? "";

/** Whether a check is one of the project's own that passed on the base, and therefore must pass at the end. */
export const isGating = (state: TaskState, { id }: CheckSpec): boolean => {
  const base = onBase(state, id);
  return isOwn(state, id) && base?.state === "passed" && base.flaky !== true;
};

/**
 * The project's checks that passed on the base and fail on the work. A check that was ended early or could not run does
 * not count.
 */
export const brokenOf = (state: TaskState): CheckRun[] =>
  state.ownChecks.flatMap((check) => {
    const result = state.results[check.id];
    return result?.state === "failed" && result.unfinished !== true && isGating(state, check) ? [result] : [];
  });

/**
 * Whether checks passed on what landed: all required checks of the request, or, if it names none, all of the project's.
 * false if there are no such checks; null: nothing landed.
 */
export const verifiedOf = (state: TaskState): boolean | null => {
  if (state.lifecycle !== "completed" || (state.isolation === "worktree" && state.landed === null)) return null;
  const counting = state.checks.length > 0 ? state.checks.filter(({ required }) => required) : state.ownChecks;
  return (
    counting.length > 0 &&
    counting.every(({ id }) => {
      const result = state.results[id];
      return result?.state === "passed" && isCurrent(state, result);
    })
  );
};

export const checksOf = (state: TaskState): CheckState[] =>
  shown(state).map((check, index) => {
    const result = state.results[check.id];
    const base = onBase(state, check.id);
    const running =
      state.running.some(({ checkID, on }) => checkID === check.id && on === "work") ||
      state.sessions.some(({ checkIDs, end }) => end === null && checkIDs.includes(check.id));
    return {
      id: check.id,
      name: check.name,
      kind: check.kind,
      required: check.required,
      gates: isGating(state, check),
      origin: index < state.checks.length ? "request" : "project",
      state: running ? "running" : (result?.state ?? "pending"),
      flaky: result?.flaky ?? false,
      stale: result !== undefined && !isOfPresentFiles(state, result),
      redefined: result?.redefined ?? [],
      exitCode: result?.exitCode ?? null,
      durationMs: result?.durationMs ?? null,
      commit: result?.commit ?? null,
      tree: result?.tree ?? null,
      round: result?.round ?? state.round,
      baseline: base === undefined ? null : { state: base.state, exitCode: base.exitCode, durationMs: base.durationMs },
    };
  });

/** The commit and tree that a result is bound to; null where the Task works in place. */
export const subjectOf = (state: TaskState, on: "base" | "work"): { commit: string | null; tree: string | null } => {
  const { workspace, tree } = state;
  if (workspace?.kind !== "worktree") return { commit: null, tree: null };
  return on === "work" && tree !== null
    ? { commit: tree.commit, tree: tree.tree }
    : { commit: workspace.baseCommit, tree: workspace.baseTree };
};

/** Whether a check has no result for the present files. */
export const isDue = (state: TaskState, { id }: CheckSpec): boolean => {
  const result = state.results[id];
  return result === undefined || !isCurrent(state, result);
};

/** The required ones of these checks whose newest result is not a pass. */
export const failedOf = (state: TaskState, checks: readonly CheckSpec[]): CheckRun[] =>
  checks.flatMap((check) => {
    const result = state.results[check.id];
    return check.required && result !== undefined && result.state !== "passed" ? [result] : [];
  });

/** A failed check with its reason, for people. */
const failedWords = (state: TaskState, run: CheckRun): string => {
  const check = specsOf(state).find(({ id }) => id === run.checkID);
  return `\`${check === undefined ? run.checkID : aboutOf(check)}\`, ${run.reason ?? `exit ${run.exitCode}`}`;
};

export const checksFailed = (state: TaskState, failed: CheckRun[]): TurnFailure => ({
  code: "checks_failed",
  message: `The agents finished; ${failed.length} of ${state.checks.length} checks failed: ${failed.map((run) => failedWords(state, run)).join("; ")}.`,
  retryable: false,
  remedy: remedyOf(state),
});

/** The failure of a Task whose work broke the project's checks. Only the caller can say that this is intended. */
export const checksBroken = (state: TaskState, broken: CheckRun[]): TurnFailure => ({
  code: "checks_failed",
  message:
    `The agents finished, and the project's own ${broken.length === 1 ? "check" : "checks"} passed before the work and failed twice after it: ${broken.map((run) => failedWords(state, run)).join("; ")}. ` +
    "Nothing landed. If that is intended, send the request again with its own `checks`, which replace the project's, or with `[]` for none.",
  retryable: false,
  remedy: remedyOf(state),
});

const remedyOf = ({ workspace }: TaskState): string =>
  `Read the check's log, then send a message to continue${workspace?.branch ? `; the work is on ${workspace.branch}` : ""}.`;
