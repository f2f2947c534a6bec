import { aboutOf, type CheckSpec } from "../../protocol/check.ts";
import type { TurnFailure } from "../../protocol/event/conversation.ts";
import type { CheckState } from "../../protocol/task/status.ts";
import { type CheckRun, isCurrent, type TaskState } from "../state/task.ts";

/** A Task's checks with their newest results, as status, board and archive show them. */

export const specsOf = ({ checks, ownChecks: own }: TaskState): CheckSpec[] => [...checks, ...own];

export const checksOf = (state: TaskState): CheckState[] =>
  specsOf(state).map((check, index) => {
    const result = state.results[check.id];
    const base = state.baseline[check.id];
    const running =
      state.running.some(({ checkID, on }) => checkID === check.id && on === "work") ||
      state.sessions.some(({ checkIDs, end }) => end === null && checkIDs.includes(check.id));
    return {
      id: check.id,
      name: check.name,
      kind: check.kind,
      required: check.required,
      origin: index < state.checks.length ? "request" : "project",
      state: running ? "running" : (result?.state ?? "pending"),
      flaky: result?.flaky ?? false,
      stale: result !== undefined && !isCurrent(state, result),
      redefined: result?.redefined ?? [],
      exitCode: result?.exitCode ?? null,
      durationMs: result?.durationMs ?? null,
      commit: result?.commit ?? null,
      tree: result?.tree ?? null,
      round: result?.round ?? state.round,
      baseline: base === undefined ? null : { state: base.state, exitCode: base.exitCode, durationMs: base.durationMs },
    };
  });

/** It has no result for the files in their present state. */
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

export const checksFailed = (state: TaskState, failed: CheckRun[]): TurnFailure => {
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
