import type { TurnFailure } from "../../protocol/event/conversation.ts";
import type { EventData } from "../../protocol/event/event.ts";
import type { Budget, Usage } from "../../protocol/task/status.ts";
import type { ModelRef } from "../agent.ts";

/**
 * What a Task's fold and a Mission's have in common: agents that talk, call, ask and wait. Whatever moves a
 * conversation asks for no more than this.
 */
export type StreamState = {
  version: number;
  position: number;
  updatedAt: string;
  /** The model that is asked now; `wanted` is the one that the Task began with. */
  model: ModelRef;
  wanted: ModelRef;
  /** Models that refused since the last reply, so that no circle is walked. */
  tried: ModelRef[];
  budget: Budget | null;
  sessions: Session[];
  /** Runs that died while the same local step (calls, a check, a landing) was under way. */
  crashes: number;
  /** The last run was stopped in good order. */
  stopped: boolean;
  sandbox: EventData["run.started"]["sandbox"] | null;
  /** Version of the newest message for the agent. */
  input: number;
  /** A message waits for the agent to finish. */
  queued: boolean;
  /** The last reply; null before the first. */
  reply: { read: number; finish: EventData["reply.finished"]["finish"]; failure: TurnFailure | null } | null;
  /** Set while the provider is asked again after a failure. */
  retry: EventData["reply.retried"] | null;
  /** Set while the Task waits for a provider's quota, outside of any run. */
  deferred: { at: string; until: string; reason: string } | null;
  /** Since when no reply came for want of quota. */
  quotaSince: string | null;
  open: OpenCall[];
  /** What the agents asked for calls that have not ended. */
  asks: Ask[];
  /** How many of each kind they asked so far. */
  asked: { question: number; permission: number };
  steps: number;
  /** Messages of the conversation so far, the request included. */
  messages: number;
  usage: Usage;
  /** Working time of this attempt: of the runs that ended, and since when one runs. Time without a worker does not count. */
  time: { ms: number; since: string | null };
  /** The caps that the agent was warned of. */
  warned: { [N in EventData["budget.warned"]["name"]]?: { used: number; cap: number; at: string } };
  repetition: Repetition;
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
      repetition: noRepetition,
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
  repetition: noRepetition,
});

export type OpenCall = {
  callID: string;
  sessionID: string;
  tool: string;
  effect: "none" | "log" | "workspace" | "unknown";
  /** Of tool and arguments; see session/repetition.ts. */
  hash: number;
  /** What a command was, for the evidence. */
  label?: string;
};

/** `begun`: what was permitted has been started, so it is not done again. */
export type Ask = EventData["ask.opened"] & { answer: EventData["ask.answered"] | null; begun: boolean };

export type Session = {
  sessionID: string;
  parentSessionID: string | null;
  agent: string;
  kind: "mission" | "orchestrator" | "agent";
  model: string;
  usage: Usage;
  startedAt: string;
  /** The call that delegated to it; null: the Orchestrator's, or a review's. */
  callID: string | null;
  purpose: "work" | "review";
  /** The slices that it was given; empty: those that nobody else was. */
  sliceIDs: string[];
  /** Checks whose criteria it judges, and what it said of them. */
  checkIDs: string[];
  judged: Record<string, Pick<EventData["check.judged"], "verdict" | "notes">>;
  /** Somebody has it stopped. */
  interrupted: Pick<EventData["session.interrupted"], "surface" | "reason"> | null;
  /** The files of its own that it works in; null: the Task's. */
  fork: NonNullable<EventData["session.started"]["fork"]> | null;
  /** Edits of the Task's files when it began. */
  edits: number;
  /** Its last reply; the Orchestrator's is the Task's own. */
  reply: StreamState["reply"];
  repetition: Repetition;
  end: (Omit<EventData["session.ended"], "sessionID"> & { at: string }) | null;
};

/** The Orchestrator's session, to which its users speak. */
export const rootOf = (state: Pick<StreamState, "sessions">): string => state.sessions[0]?.sessionID ?? "";

/** The session that an open call has delegated to. */
export const delegatedBy = (state: Pick<StreamState, "sessions">, callID: string): Session | undefined =>
  state.sessions.find((session) => session.callID === callID && session.end === null);

/** The call waits for an answer as `how` says, or all that goes on in the session it has delegated to does. */
const waits = (state: StreamState, callID: string, how: (ask: Ask) => boolean): boolean => {
  if (state.asks.some((ask) => ask.callID === callID && how(ask))) return true;
  const session = delegatedBy(state, callID);
  if (session === undefined) return false;
  const inner = state.open.filter(({ sessionID }) => sessionID === session.sessionID);
  return inner.length > 0 && inner.every((call) => waits(state, call.callID, how));
};

/** Every open call waits for an answer: nobody works, whoever holds the Task. */
export const waitsForAnswers = (state: StreamState): boolean =>
  state.open.length > 0 && state.open.every(({ callID }) => waits(state, callID, (ask) => ask.answer === null));

/** The call does nothing until its ask is answered, and has done nothing since. */
export const isWaiting = (state: StreamState, callID: string): boolean => waits(state, callID, (ask) => !ask.begun);

/** What somebody may answer. */
export const openAsks = (state: Pick<StreamState, "asks">): Ask[] => state.asks.filter(({ answer }) => answer === null);

/** The model has read every message. */
export const isRead = (state: Pick<StreamState, "reply" | "input">): boolean =>
  state.reply !== null && state.input <= state.reply.read;

export type Repetition = {
  /** One mark for each call of the turn under way that has its result. */
  now: number[];
  /** The calls of the turn before by their mark: in how many turns in a row each has stood. */
  calls: Record<string, number>;
  /** Marks of the newest turns, the newest last. */
  turns: number[];
  /** At index p: how many turns in a row were like the one p turns before. */
  same: number[];
};

export const noRepetition: Repetition = { now: [], calls: {}, turns: [], same: [] };
