import type { TurnFailure } from "../../protocol/event/conversation.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { Effort, Now } from "../../protocol/field.ts";
import type { Budget, Usage } from "../../protocol/task/status.ts";
import type { ModelRef } from "../agent.ts";

/**
 * The state that a Task and a Mission share: agents that reply, call tools, ask and wait. Code that runs a conversation
 * needs nothing beyond it.
 */
export type StreamState = {
  version: number;
  position: number;
  updatedAt: string;
  /** The time of the newest event that a run wrote. */
  workedAt: string;
  /** `model`: the model in use. `wanted`: the model that the stream began with. */
  model: ModelRef;
  wanted: ModelRef;
  /** Models that failed since the last reply, so that fallbacks are not tried twice. */
  tried: ModelRef[];
  budget: Budget | null;
  sessions: Session[];
  /** How many runs in a row died during the same local step (calls, a check, a landing). */
  crashes: number;
  /** Whether the last run was stopped in an orderly way. */
  stopped: boolean;
  /** The process that began the last run. Its name is unique, also among restarts of the same service. */
  worker: string | null;
  sandbox: EventData["run.started"]["sandbox"] | null;
  /** Version of the newest message for the agent. */
  input: number;
  /** Whether a message waits for the agent to finish. */
  queued: boolean;
  /** The last reply; null before the first. */
  reply: { read: number; finish: EventData["reply.finished"]["finish"]; failure: TurnFailure | null } | null;
  /** Set while the request is retried after a provider's failure. */
  retry: EventData["reply.retried"] | null;
  /** Set while the stream waits for a provider's quota, outside of a run. */
  deferred: { at: string; until: string; reason: string } | null;
  /** Set while a run is paused, for example until there is disk space. */
  pause: { at: string; code: EventData["run.paused"]["code"]; reason: string } | null;
  /** Since when replies have failed for lack of quota. */
  quotaSince: string | null;
  open: OpenCall[];
  /** The asks of calls that have not ended, and the open approval. */
  asks: Ask[];
  /** How many of each kind the agents have asked so far. */
  asked: { question: number; permission: number };
  steps: number;
  /** Messages of the conversation so far, including the request. */
  messages: number;
  usage: Usage;
  /**
   * Working time of this attempt: `ms` of ended runs, and the start of the current one. Time without a worker does not
   * count.
   */
  time: { ms: number; since: string | null };
  /** The caps that the agent was warned about. */
  warned: { [N in EventData["budget.warned"]["name"]]?: { used: number; cap: number; at: string } };
  repetition: Repetition;
  /** What is being done or waited for; null: the stream has ended. */
  now: Now | null;
};

export const noUsage: Usage = {
  inputTokens: 0,
  outputTokens: 0,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  costUSD: 0,
  modelCalls: 0,
  toolCalls: 0,
};

/** The state before any message: one session, that of the stream's first agent. */
export const beginStream = (first: {
  sessionID: string;
  agent: string;
  kind: Session["kind"];
  model: ModelRef;
  at: string;
}): Omit<StreamState, "version" | "position" | "budget"> => ({
  updatedAt: first.at,
  workedAt: first.at,
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
      effort: null,
      usage: noUsage,
      startedAt: first.at,
      callID: null,
      purpose: "work",
      sliceIDs: [],
      checkIDs: [],
      judged: {},
      interrupted: null,
      fork: null,
      from: null,
      edits: 0,
      reply: null,
      repetition: noRepetition,
      end: null,
    },
  ],
  crashes: 0,
  stopped: false,
  worker: null,
  sandbox: null,
  input: 0,
  queued: false,
  reply: null,
  retry: null,
  deferred: null,
  pause: null,
  quotaSince: null,
  open: [],
  asks: [],
  asked: { question: 0, permission: 0 },
  steps: 0,
  messages: 0,
  usage: noUsage,
  time: { ms: 0, since: null },
  warned: {},
  repetition: noRepetition,
  now: null,
});

export type OpenCall = {
  callID: string;
  sessionID: string;
  tool: string;
  effect: "none" | "log" | "workspace" | "unknown";
  /** Hash of tool and arguments; see session/repetition.ts. */
  hash: number;
  /** The beginning of the command, for people. */
  label?: string;
};

/**
 * `begun`: the permitted action was started, and must not be started again. `reminded`: the number of reminders. An
 * approval stays listed until it is answered.
 */
export type Ask = EventData["ask.opened"] & {
  answer: EventData["ask.answered"] | null;
  begun: boolean;
  openedAt: string;
  reminded: number;
};

export type Session = {
  sessionID: string;
  parentSessionID: string | null;
  agent: string;
  kind: "mission" | "orchestrator" | "agent";
  model: string;
  /** The reasoning effort that its newest reply was requested with. */
  effort: Effort | null;
  usage: Usage;
  startedAt: string;
  /** The call that delegated to this session; null for the Orchestrator's session and for reviews. */
  callID: string | null;
  purpose: "work" | "review";
  /** The slices given to this session; empty: all that no other session was given. */
  sliceIDs: string[];
  /** `checkIDs`: the checks whose criteria this session judges. `judged`: its verdicts so far. */
  checkIDs: string[];
  judged: Record<string, Pick<EventData["check.judged"], "verdict" | "notes">>;
  /** Who interrupted the session; null: nobody did. */
  interrupted: Pick<EventData["session.interrupted"], "surface" | "reason"> | null;
  /**
   * The session's own copy of the files; null: it works in the Task's. `tip`: the commit of that copy from which it
   * continues on another node.
   */
  fork: (NonNullable<EventData["session.started"]["fork"]> & { tip?: string }) | null;
  /** The commit of the Task's files on which the session began; null: not known, or it has a fork. */
  from: string | null;
  /** The value of the Task's `edits` when the session began. */
  edits: number;
  /** The session's last reply. The Orchestrator's is recorded on the Task instead. */
  reply: StreamState["reply"];
  repetition: Repetition;
  end: (Omit<EventData["session.ended"], "sessionID"> & { at: string }) | null;
};

/** The Orchestrator's session, which gets the users' messages. */
export const rootOf = (state: Pick<StreamState, "sessions">): string => state.sessions[0]?.sessionID ?? "";

/** The running session that an open call delegated to; undefined: none. */
export const delegatedBy = (state: Pick<StreamState, "sessions">, callID: string): Session | undefined =>
  state.sessions.find((session) => session.callID === callID && session.end === null);

/**
 * Whether a call waits for an ask that matches `how`, itself or through every open call of the session that it
 * delegated to.
 */
const waits = (state: StreamState, callID: string, how: (ask: Ask) => boolean): boolean => {
  if (state.asks.some((ask) => ask.callID === callID && how(ask))) return true;
  const session = delegatedBy(state, callID);
  if (session === undefined) return false;
  const inner = state.open.filter(({ sessionID }) => sessionID === session.sessionID);
  return inner.length > 0 && inner.every((call) => waits(state, call.callID, how));
};

/**
 * Whether every open call waits for an answer, or an approval is open: no work is being done, even if a worker holds
 * the stream.
 */
export const waitsForAnswers = (state: StreamState): boolean =>
  state.open.length === 0
    ? (state.reply === null || isRead(state)) && state.asks.some(({ kind }) => kind === "approval")
    : state.open.every(({ callID }) => waits(state, callID, (ask) => ask.answer === null));

/** Whether the call has done nothing since its ask was opened, and does nothing until it is answered. */
export const isWaiting = (state: StreamState, callID: string): boolean => waits(state, callID, (ask) => !ask.begun);

/** The asks that can be answered. */
export const openAsks = (state: Pick<StreamState, "asks">): Ask[] => state.asks.filter(({ answer }) => answer === null);

/**
 * Whether the wait for a quota still lasts. If the clock is behind the beginning of the wait, it was set back and
 * proves nothing: the wait counts as over.
 */
export const isDeferred = ({ at, until }: NonNullable<StreamState["deferred"]>, now: Date): boolean =>
  Date.parse(at) <= now.getTime() && now.getTime() < Date.parse(until);

/** Whether the model has read every message. */
export const isRead = (state: Pick<StreamState, "reply" | "input">): boolean =>
  state.reply !== null && state.input <= state.reply.read;

export type Repetition = {
  /** Marks (hashes of call and result) of the finished calls of the current turn. */
  now: number[];
  /** The calls of the previous turn, by mark: in how many turns in a row each occurred. */
  calls: Record<string, number>;
  /** Marks of the newest turns, newest last. */
  turns: number[];
  /** At index p: how many turns in a row equalled the one p turns earlier. */
  same: number[];
};

export const noRepetition: Repetition = { now: [], calls: {}, turns: [], same: [] };
