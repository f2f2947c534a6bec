import type { EventData } from "../../protocol/event/event.ts";
import type { PendingAsk } from "../../protocol/task/status.ts";
import type { DomainEvent } from "../event.ts";
import { type StreamState, type Ask, waitsForAnswers, openAsks, rootOf } from "../state/stream.ts";

/**
 * Asks: permissions and questions that a call waits for, and approvals that the service asks for. Each is answered
 * exactly once: by a caller, by its timeout, or by whatever ended it. An answer is committed only at the version for
 * which it was decided, so the second of two answers finds the ask closed.
 */

/** The id of a call's ask. Derived from the call, so that a call that runs again finds its ask. */
export const askIDOf = (callID: string): string => callID.replace(/^call_/, "ask_");

export const pendingOf = (state: StreamState): PendingAsk[] =>
  openAsks(state).map(({ askID, kind, prompt, options, default: fallback, expiresAt, of, would, passesAt }) => ({
    id: askID,
    kind,
    prompt,
    options,
    default: fallback,
    expiresAt,
    ...(of === undefined ? {} : { of }),
    ...(would === undefined ? {} : { would }),
    ...(passesAt === undefined ? {} : { passesAt }),
  }));

/** The asks that a person is to answer, as opposed to a Mission. */
export const toPerson = <A extends { passesAt?: string | undefined }>(asks: readonly A[]): A[] =>
  asks.filter(({ passesAt }) => passesAt === undefined);

/**
 * When the first of the asks times out, is passed on or needs a reminder; undefined while any work is still being done.
 */
export const waitsUntil = (state: StreamState): string | undefined =>
  waitsForAnswers(state)
    ? openAsks(state)
        .flatMap((ask) => [ask.passesAt ?? [], ask.expiresAt ?? [], reminderOf(ask) ?? []].flat())
        .sort()[0]
    : undefined;

/** Hours after which a reminder of an ask is due; after the last one, once a day. */
const reminderHours = [1, 4, 24];

/** When the next reminder of an ask is due; undefined: a Mission is asked, or the ask times out before that. */
export const reminderOf = ({ openedAt, reminded, expiresAt, passesAt }: Ask): string | undefined => {
  if (passesAt !== undefined) return undefined;
  const hours = reminderHours[reminded] ?? 24 * (reminded - reminderHours.length + 2);
  const at = new Date(Date.parse(openedAt) + hours * 3_600_000).toISOString();
  return expiresAt !== null && expiresAt <= at ? undefined : at;
};

/** The event that records the reminders that are due; empty: none is. */
export const remind = (state: StreamState, now: Date): DomainEvent[] => {
  const due = openAsks(state).filter((ask) => {
    const at = reminderOf(ask);
    return at !== undefined && Date.parse(at) <= now.getTime();
  });
  return due.length === 0
    ? []
    : [{ type: "ask.reminded", data: { sessionID: rootOf(state), askIDs: due.map(({ askID }) => askID) } }];
};

/** Passes an ask on to a person. `seconds`: the time to answer; 0: no limit. */
export const passed = (
  { askID }: Pick<Ask, "askID">,
  by: EventData["ask.passed"]["by"],
  { now, seconds }: { now: Date; seconds: number },
): DomainEvent => {
  const expiresAt = seconds === 0 ? null : new Date(now.getTime() + seconds * 1000).toISOString();
  return { type: "ask.passed", data: { askID, by, expiresAt } };
};

/** Passes on the asks that the Mission has not answered within its time. */
export const passTimeouts = (state: StreamState, how: { now: Date; seconds: number }): DomainEvent[] =>
  openAsks(state)
    .filter(({ passesAt }) => passesAt !== undefined && Date.parse(passesAt) <= how.now.getTime())
    .map((ask) => passed(ask, "timeout", how));

const answered = (ask: Ask, how: Omit<EventData["ask.answered"], "askID">): DomainEvent => ({
  type: "ask.answered",
  data: { askID: ask.askID, ...how },
});

export type AnswerDecision =
  | { kind: "events"; events: DomainEvent[] }
  /** There is no open ask with this id. */
  | { kind: "closed" }
  /** A decision was given for a question, or words where a decision is needed. */
  | { kind: "mismatch"; expected: "decision" | "answer" };

type Given = {
  decision?: "allow" | "deny" | undefined;
  answer?: string | undefined;
  source: string;
  /** The answer is a person's, although its source is a Mission's. */
  byUser?: true;
  /** Who answers an approval. */
  from?: EventData["ask.answered"]["from"] | undefined;
};

/** Decides on a caller's answer. An ask whose time is over is closed, even if its timeout is not on record yet. */
export const answer = (state: StreamState, askID: string, given: Given, now: Date): AnswerDecision => {
  const ask = openAsks(state).find((open) => open.askID === askID);
  if (ask === undefined || isOver(ask, now)) return { kind: "closed" };
  const { decision, answer: text, source, byUser, from } = given;
  const by = { by: "caller", source, ...(byUser === undefined ? {} : { byUser }) } as const;
  switch (ask.kind) {
    case "permission":
      return decision === undefined || text !== undefined
        ? { kind: "mismatch", expected: "decision" }
        : { kind: "events", events: [answered(ask, { decision, ...by })] };
    case "approval": {
      if (decision === undefined) return { kind: "mismatch", expected: "decision" };
      const words = text === undefined ? {} : { answer: text };
      return {
        kind: "events",
        events: [answered(ask, { decision, ...words, ...by, ...(from === undefined ? {} : { from }) })],
      };
    }
    case "question":
      return text === undefined || decision !== undefined
        ? { kind: "mismatch", expected: "answer" }
        : { kind: "events", events: [answered(ask, { answer: text, ...by })] };
  }
};

export const isOver = ({ expiresAt }: Ask, now: Date): boolean =>
  expiresAt !== null && Date.parse(expiresAt) <= now.getTime();

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

/** Closes asks without an answer. `source`: what closed them. */
export const endAsks = (asks: readonly Ask[], source: string): DomainEvent[] =>
  asks.map((ask) => answered(ask, { ...(ask.kind === "question" ? {} : { decision: "deny" }), by: "ended", source }));

/**
 * Closes the asks that a message supersedes. A steering message answers questions in other words, while a permission is
 * a decision and stays open. An interrupting message closes both, a queued one neither. Every message closes an
 * approval, because what was to be approved is no longer final.
 */
export const asksClosedBy = (
  state: StreamState,
  disposition: EventData["message.received"]["disposition"],
): DomainEvent[] => {
  const closes = (ask: Ask): boolean => {
    switch (disposition) {
      case "steered":
        return ask.kind !== "permission";
      case "interrupted":
        return true;
      case "queued":
      case "restarted":
        return ask.kind === "approval";
    }
  };
  return endAsks(openAsks(state).filter(closes), "message");
};

export const answerWords = ({ decision, answer: text, by, source }: EventData["ask.answered"]): string => {
  const said = decision === undefined || text === undefined ? (decision ?? text) : `${decision}: ${text}`;
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
