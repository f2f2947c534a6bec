import type { CheckState } from "../protocol/status.ts";
import { isCurrent, type TaskState } from "./task.ts";

/** The checks of a Task with their newest results, as status, board and archive show them. */

export const checksOf = (state: TaskState): CheckState[] =>
  state.checks.map((check) => {
    const result = state.results[check.id];
    const base = state.baseline[check.id];
    const running = state.running?.checkID === check.id && state.running.on === "work";
    return {
      id: check.id,
      name: check.name,
      kind: check.kind,
      required: check.required,
      origin: "request",
      state: running ? "running" : (result?.state ?? "pending"),
      flaky: false,
      stale: result !== undefined && !isCurrent(state, result),
      exitCode: result?.exitCode ?? null,
      durationMs: result?.durationMs ?? null,
      commit: result?.commit ?? null,
      tree: result?.tree ?? null,
      round: result?.round ?? state.round,
      baseline: base === undefined ? null : { state: base.state, exitCode: base.exitCode, durationMs: base.durationMs },
    };
  });
