import type { EventData } from "../../protocol/event/event.ts";
import type { PendingAsk } from "../../protocol/task/status.ts";
import type { DomainEvent } from "../event.ts";
import { type StreamState, type Ask, waitsForAnswers, openAsks } from "../state/stream.ts";

/**
 * Asks: permissions and questions that a call waits for. Each is opened by its call and answered exactly once: by a
 * caller, by its timeout, or by what ended it. An answer is committed at the version it was decided at, so of two
 * answers one finds the ask closed.
 */

/** The id of a call's ask. Derived from the call, so that a call that runs again finds its ask. */
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

/** If every open call waits for an answer: when the first of their asks times out. */
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
  /** There is no open ask with this id. */
  | { kind: "closed" }
  /** A decision for a question, or an answer for a permission. */
  | { kind: "mismatch"; expected: "decision" | "answer" };

/** Decides on a caller's answer. An ask whose time is over is closed, even if its timeout is not on record yet. */
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

/** The default answers of asks whose time is over. */
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

/** Closes asks without an answer, because of what came instead. */
export const endAsks = (asks: readonly Ask[], source: string): DomainEvent[] =>
  asks.map((ask) => answered(ask, { ...(ask.kind === "permission" ? { decision: "deny" } : {}), by: "ended", source }));

/**
 * Closes the asks that a message supersedes. A steering message answers questions in other words, while a permission is
 * a decision and stays open. An interrupting message closes both, a queued one neither.
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
