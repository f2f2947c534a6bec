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
  /** Of the newest fact that a run wrote. */
  workedAt: string;
  /** `model`: the one in use. `wanted`: the one that the Task began with. */
  model: ModelRef;
  wanted: ModelRef;
  /** Models that failed since the last reply, so that fallbacks are not tried twice. */
  tried: ModelRef[];
  budget: Budget | null;
  sessions: Session[];
  /** How many runs in a row died during the same local step (calls, a check, a landing). */
  crashes: number;
  /** The last run was stopped in an orderly way. */
  stopped: boolean;
  /** Which process began the last run; the name is no other's, nor that of the same service started again. */
  worker: string | null;
  sandbox: EventData["run.started"]["sandbox"] | null;
  /** Version of the newest message for the agent. */
  input: number;
  /** A message waits for the agent to finish. */
  queued: boolean;
  /** The last reply; null before the first. */
  reply: { read: number; finish: EventData["reply.finished"]["finish"]; failure: TurnFailure | null } | null;
  /** Set while the request is retried after a provider's failure. */
  retry: EventData["reply.retried"] | null;
  /** Set while the Task waits for a provider's quota, which it does outside of a run. */
  deferred: { at: string; until: string; reason: string } | null;
  /** Set while its run waits, such as for space on the disk. */
  pause: { at: string; code: EventData["run.paused"]["code"]; reason: string } | null;
  /** Since when replies failed for lack of quota. */
  quotaSince: string | null;
  open: OpenCall[];
  /** The asks of calls that have not ended, and the approval that is asked for. */
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
  /** What is being done or waited for; null once ended. */
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

/** The state before any message: one session, that of the stream's own agent. */
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
  /** The command's beginning, to say what is being done. */
  label?: string;
};

/**
 * `begun`: the permitted action was started, and must not be started again. `reminded`: how often somebody was. One of
 * kind approval is here until it is answered.
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
  /** Of reasoning, as its newest reply was asked for. */
  effort: Effort | null;
  usage: Usage;
  startedAt: string;
  /** The call that delegated to it; null for the Orchestrator's and for a review's. */
  callID: string | null;
  purpose: "work" | "review";
  /** The slices that it was given; empty: all that no other session was given. */
  sliceIDs: string[];
  /** The checks whose criteria it judges, and its verdicts so far. */
  checkIDs: string[];
  judged: Record<string, Pick<EventData["check.judged"], "verdict" | "notes">>;
  /** Who interrupted it; null: nobody did. */
  interrupted: Pick<EventData["session.interrupted"], "surface" | "reason"> | null;
  /**
   * Its own copy of the files; null: it works in the Task's. `tip`: the commit of its own that it goes on from on
   * another node.
   */
  fork: (NonNullable<EventData["session.started"]["fork"]> & { tip?: string }) | null;
  /** The commit of the Task's files that it began on; null: not known, or it has a fork. */
  from: string | null;
  /** Value of the Task's `edits` when it began. */
  edits: number;
  /** Its last reply. The Orchestrator's is recorded on the Task instead. */
  reply: StreamState["reply"];
  repetition: Repetition;
  end: (Omit<EventData["session.ended"], "sessionID"> & { at: string }) | null;
};

/** The Orchestrator's session, which gets the users' messages. */
export const rootOf = (state: Pick<StreamState, "sessions">): string => state.sessions[0]?.sessionID ?? "";

/** The running session that an open call delegated to. */
export const delegatedBy = (state: Pick<StreamState, "sessions">, callID: string): Session | undefined =>
  state.sessions.find((session) => session.callID === callID && session.end === null);

/**
 * Whether the call waits for an ask that matches `how`, itself or through every open call of the session it delegated
 * to.
 */
const waits = (state: StreamState, callID: string, how: (ask: Ask) => boolean): boolean => {
  if (state.asks.some((ask) => ask.callID === callID && how(ask))) return true;
  const session = delegatedBy(state, callID);
  if (session === undefined) return false;
  const inner = state.open.filter(({ sessionID }) => sessionID === session.sessionID);
  return inner.length > 0 && inner.every((call) => waits(state, call.callID, how));
};

/**
 * Every open call waits for an answer, or an approval is asked for: no work is being done, even if a worker holds the
 * Task.
 */
export const waitsForAnswers = (state: StreamState): boolean =>
  state.open.length === 0
    ? (state.reply === null || isRead(state)) && state.asks.some(({ kind }) => kind === "approval")
    : state.open.every(({ callID }) => waits(state, callID, (ask) => ask.answer === null));

/** The call has done nothing since its ask was opened, and does nothing until it is answered. */
export const isWaiting = (state: StreamState, callID: string): boolean => waits(state, callID, (ask) => !ask.begun);

/** The asks that can be answered. */
export const openAsks = (state: Pick<StreamState, "asks">): Ask[] => state.asks.filter(({ answer }) => answer === null);

/**
 * It waits for a quota on. A clock that is behind the moment at which the wait began was set back, and proves nothing.
 */
export const isDeferred = ({ at, until }: NonNullable<StreamState["deferred"]>, now: Date): boolean =>
  Date.parse(at) <= now.getTime() && now.getTime() < Date.parse(until);

/** The model has read every message. */
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
