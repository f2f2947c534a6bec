import type { TaskStatus, Topology } from "../../protocol/task/status.ts";
import { checksOf } from "../evidence/check.ts";
import { goalsOf } from "../evidence/slice.ts";
import { commonOf } from "./summary.ts";
import type { TaskState } from "../state/task.ts";
import { rootOf } from "../state/stream.ts";

/** The status record of `GET /task/{taskID}/status`. `known`: the fields that only the store knows. */
export const statusOf = (
  state: TaskState,
  known: Pick<TaskStatus, "queue" | "phase" | "now" | "summary" | "output">,
): TaskStatus => ({
  ...commonOf(state),
  repository: state.repository && {
    ...state.repository,
    baseCommit: state.workspace?.of ?? state.workspace?.baseCommit ?? null,
  },
  effort: state.effort,
  approve: state.approve,
  revertOf: state.revertOf?.taskID ?? null,
  dependencies: state.dependencies ?? [],
  goals: goalsOf(state),
  sessionInvocationTopology: topologyOf(state),
  checks: checksOf(state),
  ...known,
});

export const topologyOf = (state: TaskState): Topology => ({
  rootSessionID: rootOf(state),
  nodes: state.sessions.map((session) => ({
    sessionID: session.sessionID,
    parentSessionID: session.parentSessionID,
    agent: session.agent,
    kind: session.kind,
    model: session.model,
    effort: session.effort,
    state: session.end === null && state.lifecycle === "active" ? "running" : "ended",
    sliceIDs: session.sliceIDs,
    usage: session.usage,
    startedAt: session.startedAt,
    endedAt: session.end?.at ?? state.settledAt,
  })),
  edges: state.sessions.flatMap(({ sessionID, parentSessionID, callID, startedAt }) =>
    parentSessionID === null ? [] : [{ from: parentSessionID, to: sessionID, callID, at: startedAt }],
  ),
});
