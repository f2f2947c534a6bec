import type { CheckSpec } from "../protocol/check.ts";
import type { CheckState } from "../protocol/status.ts";
import { isCurrent, type TaskState } from "./task.ts";

/** The checks of a Task with their newest results, as status, board and archive show them. */

export const specsOf = ({ checks, own }: TaskState): CheckSpec[] => [...checks, ...own];

export const checksOf = (state: TaskState): CheckState[] =>
  specsOf(state).map((check, index) => {
    const result = state.results[check.id];
    const base = state.baseline[check.id];
    const running = state.running.some(({ checkID, on }) => checkID === check.id && on === "work");
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
