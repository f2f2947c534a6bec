import type { ModelUsage } from "../../protocol/event/conversation.ts";
import type { Usage } from "../../protocol/task/status.ts";
import type { ModelRef } from "../agent.ts";
import { recordTurn } from "./repetition.ts";
import type { Recorded } from "../event.ts";
import { noUsage, type StreamState, rootOf, type Session, type Repetition, noRepetition } from "../state/stream.ts";
import type { TaskState } from "../state/task.ts";

/** Changes of a session in the fold: the Orchestrator's, those of delegates, and those of reviewers. */

export const inSession = (
  { sessions }: Pick<StreamState, "sessions">,
  sessionID: string,
  change: (session: Session) => Partial<Session>,
): Pick<StreamState, "sessions"> => ({
  sessions: sessions.map((session) => (session.sessionID === sessionID ? { ...session, ...change(session) } : session)),
});

/** A session continues with a model. The Orchestrator's model is also the Task's. */
export const withModel = (state: StreamState, sessionID: string, model: ModelRef): Partial<StreamState> => ({
  ...(sessionID === rootOf(state) ? { model } : {}),
  ...inSession(state, sessionID, () => ({ model })),
});

export const startedSession = (
  { edits }: TaskState,
  { data, at }: Recorded & { type: "session.started" },
): Session => ({
  sessionID: data.sessionID,
  parentSessionID: data.parentSessionID,
  agent: data.agent,
  kind: "agent",
  model: data.model,
  effort: null,
  usage: noUsage,
  startedAt: at,
  callID: data.callID,
  purpose: data.purpose,
  sliceIDs: data.sliceIDs,
  checkIDs: data.checkIDs ?? [],
  judged: {},
  interrupted: null,
  fork: data.fork ?? null,
  from: data.from ?? null,
  edits,
  reply: null,
  repetition: noRepetition,
  end: null,
});

/** Whether the agent is asked for another reply, because this one did not end its work. */
export const isMidway = (reply: StreamState["reply"]): boolean =>
  reply?.finish === "calls" || reply?.finish === "length" || reply?.finish === "empty";

/** The fold after a reply. The Orchestrator's is recorded on the Task, any other on its session; the usage on both. */
export const afterReply = (state: StreamState, event: Recorded & { type: "reply.finished" }): Partial<StreamState> => {
  const { sessionID, read, finish, failure, usage, calls, effort } = event.data;
  const reply = { read, finish, failure };
  const added = addUsage(state, sessionID, usage, { model: 1, tool: calls.length });
  const paid =
    finish === "failed"
      ? added
      : { ...added, ...inSession({ ...state, ...added }, sessionID, () => ({ effort: effort ?? null })) };
  return sessionID === rootOf(state)
    ? {
        ...paid,
        reply,
        ...(state.queued && finish !== "calls" && finish !== "empty" ? { queued: false, input: event.version } : {}),
      }
    : { ...paid, ...inSession({ ...state, ...paid }, sessionID, () => ({ reply })) };
};

/** Repetition is tracked per session. */
export const withRepetition = (
  state: StreamState,
  event: Recorded & { type: "tool.finished" },
  mark: number,
): Partial<StreamState> => {
  const { sessionID, callID } = event.data;
  const last = state.open.every((call) => call.sessionID !== sessionID || call.callID === callID);
  return sessionID === rootOf(state)
    ? { repetition: recordTurn(state.repetition, mark, event.data, last) }
    : inSession(state, sessionID, ({ repetition }) => ({
        repetition: recordTurn(repetition, mark, event.data, last),
      }));
};

/** Adds the usage of a model call to the Task and to its session. */
export const addUsage = (
  state: Pick<StreamState, "usage" | "sessions">,
  sessionID: string,
  call: ModelUsage,
  calls: { model: number; tool: number },
) => {
  const add = (sum: Usage): Usage => ({
    inputTokens: sum.inputTokens + call.inputTokens,
    outputTokens: sum.outputTokens + call.outputTokens,
    cacheReadTokens: sum.cacheReadTokens + call.cacheReadTokens,
    cacheWriteTokens: sum.cacheWriteTokens + call.cacheWriteTokens,
    costUSD: sum.costUSD === null || call.costUSD === null ? null : sum.costUSD + call.costUSD,
    modelCalls: sum.modelCalls + calls.model,
    toolCalls: sum.toolCalls + calls.tool,
  });
  return {
    usage: add(state.usage),
    sessions: state.sessions.map((session) =>
      session.sessionID === sessionID ? { ...session, usage: add(session.usage) } : session,
    ),
  };
};

/** The repetition of one session. */
export const repetitionOf = (state: StreamState, sessionID: string): Repetition =>
  sessionID === rootOf(state)
    ? state.repetition
    : (state.sessions.find((each) => each.sessionID === sessionID)?.repetition ?? noRepetition);

/** Who interrupted a session or a session that delegated to it; null: nobody did. */
export const interruptOf = (state: TaskState, sessionID: string): Session["interrupted"] => {
  const session = state.sessions.find((each) => each.sessionID === sessionID);
  if (session === undefined) return null;
  return session.interrupted ?? (session.parentSessionID === null ? null : interruptOf(state, session.parentSessionID));
};

export const findSession = (state: StreamState, sessionID: string): Session => {
  const session = state.sessions.find((each) => each.sessionID === sessionID);
  if (session === undefined) throw new Error(`Expected the session ${sessionID} in this log, got none.`);
  return session;
};
