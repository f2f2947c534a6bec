import type { Usage } from "../../protocol/task/status.ts";
import type { ModelRef } from "../agent.ts";
import { noCircle } from "../session/repetition.ts";
import type { Session, TaskState } from "./task.ts";

/**
 * What a Task's fold and a Mission's have in common: agents that talk, call, ask and wait. Whatever moves a
 * conversation asks for no more than this.
 */
export type StreamState = Pick<
  TaskState,
  | "version"
  | "position"
  | "updatedAt"
  | "model"
  | "wanted"
  | "tried"
  | "budget"
  | "sessions"
  | "crashes"
  | "stopped"
  | "sandbox"
  | "input"
  | "queued"
  | "reply"
  | "retry"
  | "deferred"
  | "quotaSince"
  | "open"
  | "asks"
  | "asked"
  | "steps"
  | "messages"
  | "usage"
  | "time"
  | "warned"
  | "circle"
>;

export const noUsage: Usage = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  costUSD: 0,
  modelCalls: 0,
  toolCalls: 0,
};

/** Before anything was said: one session, that of the agent the stream belongs to. */
export const beginStream = (first: {
  sessionID: string;
  agent: string;
  kind: Session["kind"];
  model: ModelRef;
  at: string;
}): Omit<StreamState, "version" | "position" | "budget"> => ({
  updatedAt: first.at,
  model: first.model,
  wanted: first.model,
  tried: [],
  sessions: [
    {
      sessionID: first.sessionID,
      parentSessionID: null,
      agent: first.agent,
      kind: first.kind,
      model: first.model,
      usage: noUsage,
      startedAt: first.at,
      callID: null,
      purpose: "work",
      sliceIDs: [],
      checkIDs: [],
      judged: {},
      interrupted: null,
      fork: null,
      edits: 0,
      reply: null,
      circle: noCircle,
      end: null,
    },
  ],
  crashes: 0,
  stopped: false,
  sandbox: null,
  input: 0,
  queued: false,
  reply: null,
  retry: null,
  deferred: null,
  quotaSince: null,
  open: [],
  asks: [],
  asked: { question: 0, permission: 0 },
  steps: 0,
  messages: 0,
  usage: noUsage,
  time: { ms: 0, since: null },
  warned: {},
  circle: noCircle,
});
