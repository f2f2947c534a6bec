import type { CheckState, TaskStatus, Topology } from "../protocol/task.ts";
import { commonOf } from "./summary.ts";
import { isCurrent, type TaskState } from "./task.ts";

/** The status record: `GET /task/{taskID}/status`. `queue` is known only to the store and passed in. */
export const statusOf = (state: TaskState, queue: TaskStatus["queue"]): TaskStatus => ({
  ...commonOf(state),
  goals: [],
  sessionInvocationTopology: topologyOf(state),
  queue,
  checks: checksOf(state),
});

export const topologyOf = (state: TaskState): Topology => ({
  rootSessionID: state.sessions[0]?.sessionID ?? "",
  nodes: state.sessions.map((session) => ({
    sessionID: session.sessionID,
    parentSessionID: session.parentSessionID,
    agent: session.agent,
    kind: session.kind,
    model: session.model,
    state: state.lifecycle === "active" ? "running" : "ended",
    sliceIDs: [],
    usage: session.usage,
    startedAt: session.startedAt,
    endedAt: state.settledAt,
  })),
  edges: [],
});

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
