import type { EventData } from "../../protocol/event/event.ts";
import type { PendingAsk } from "../../protocol/task/status.ts";
import type { DomainEvent } from "../event.ts";
import { type StreamState, type Ask, waitsForAnswers, openAsks } from "../state/stream.ts";

/**
 * Bounded questions: opened by a call, answered exactly once, by a caller, by their time or by what came instead.
 * Whoever answers commits at the version it judged, so of two answers one finds the ask closed.
 */

/** The call's own ask: one for each call, so that a call that runs again finds it. */
export const askIDOf = (callID: string): string => callID.replace(/^call_/, "ask_");

export const pendingOf = (state: StreamState): PendingAsk[] =>
  openAsks(state).map(({ askID, kind, prompt, options, default: fallback, expiresAt }) => ({
    id: askID,
    kind,
    prompt,
    options,
    default: fallback,
    expiresAt,
  }));

/** While all open calls wait: when the first of them has waited for long enough. */
export const waitsUntil = (state: StreamState): string | undefined =>
  waitsForAnswers(state)
    ? openAsks(state)
        .map(({ expiresAt }) => expiresAt)
        .sort()[0]
    : undefined;

const answered = (ask: Ask, how: Omit<EventData["ask.answered"], "askID">): DomainEvent => ({
  type: "ask.answered",
  data: { askID: ask.askID, ...how },
});

export type AnswerDecision =
  | { kind: "events"; events: DomainEvent[] }
  /** No ask of this id waits any more, or ever did. */
  | { kind: "closed" }
  /** A decision for a question, or the other way round. */
  | { kind: "mismatch"; expected: "decision" | "answer" };

/** What a caller's answer comes to. Its time is over when it is over, also while nobody has said so yet. */
export const answer = (
  state: StreamState,
  askID: string,
  given: { decision?: "allow" | "deny" | undefined; answer?: string | undefined; source: string },
  now: Date,
): AnswerDecision => {
  const ask = openAsks(state).find((open) => open.askID === askID);
  if (ask === undefined || isOver(ask, now)) return { kind: "closed" };
  const { decision, answer: text, source } = given;
  if (ask.kind === "permission")
    return decision === undefined
      ? { kind: "mismatch", expected: "decision" }
      : { kind: "events", events: [answered(ask, { decision, by: "caller", source })] };
  return text === undefined
    ? { kind: "mismatch", expected: "answer" }
    : { kind: "events", events: [answered(ask, { answer: text, by: "caller", source })] };
};

export const isOver = (ask: Ask, now: Date): boolean => Date.parse(ask.expiresAt) <= now.getTime();

/** The defaults of what nobody answered in time. */
export const timeouts = (state: StreamState, now: Date): DomainEvent[] =>
  openAsks(state)
    .filter((ask) => isOver(ask, now))
    .map((ask) =>
      answered(ask, {
        ...(ask.kind === "permission" ? { decision: "deny" } : ask.default === null ? {} : { answer: ask.default }),
        by: "timeout",
        source: "service",
      }),
    );

/** Closes what is open, because something came instead. */
export const endAsks = (asks: readonly Ask[], source: string): DomainEvent[] =>
  asks.map((ask) => answered(ask, { ...(ask.kind === "permission" ? { decision: "deny" } : {}), by: "ended", source }));

/**
 * What a message ends. It is an answer in other words to a question; a permission is a decision and stays open. An
 * interruption ends both, a message for later neither.
 */
export const asksClosedBy = (
  state: StreamState,
  disposition: EventData["message.received"]["disposition"],
): DomainEvent[] => {
  switch (disposition) {
    case "steered":
      return endAsks(
        openAsks(state).filter(({ kind }) => kind === "question"),
        "message",
      );
    case "interrupted":
      return endAsks(openAsks(state), "message");
    case "queued":
    case "restarted":
      return [];
  }
};

export const answerWords = ({ decision, answer: text, by, source }: EventData["ask.answered"]): string => {
  const said = decision ?? text;
  switch (by) {
    case "caller":
      return `${source} answered: ${said}`;
    case "timeout":
      return said === undefined ? "Nobody answered in time" : `Nobody answered in time: ${said}`;
    case "ended":
      return decision === undefined ? `Closed without an answer (${source})` : `Closed: ${decision} (${source})`;
  }
};

export const permissionWords = ({ tool, subject, decision, rule, by }: EventData["permission.decided"]): string => {
  const verb = { deny: "Denied", ask: "Needs permission", allow: "Allowed" }[decision];
  const why = { rule: "", caller: ", by answer", timeout: ", nobody answered", ended: ", not answered" }[by];
  return `${verb}: ${subject === "" ? tool : `${tool} ${subject}`} (rule ${rule}${why})`;
};
