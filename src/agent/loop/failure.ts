import type { DomainEvent } from "../../domain/event.ts";
import type { ModelFailure } from "../../model/model.ts";
import type { AgentSession } from "../session.ts";

/**
 * Handles a failed model call: retries it, switches to another model, defers the Task until a quota resets, or records
 * the failed reply that `end` makes. Resolves to true when the caller should ask again at once, and to false when this
 * turn is over; the recorded events then say what happens next.
 */
export const afterFailure = async (
  session: AgentSession,
  failed: ModelFailure,
  cut: AbortSignal,
  end: () => DomainEvent,
): Promise<boolean> => {
  const { sessionID } = session;
  const { code, message } = failed.failure;
  const to = failed.elsewhere === true ? await session.fallbackModel() : undefined;
  const decision = decideRetry(failed, session.state().retry?.attempt ?? 1, {
    standIn: to !== undefined,
    patienceMs: session.limits.waitSeconds * 1000,
    random: Math.random,
  });
  switch (decision.kind) {
    case "again": {
      const { attempt, delayMs } = decision;
      const retryAt = after(session, delayMs).toISOString();
      const data = { sessionID, code, message, attempt, attempts: retryAttempts, retryAt };
      await session.record([{ type: "reply.retried", data }]);
      await session.sleep(delayMs, cut);
      return true;
    }
    case "elsewhere":
      if (to === undefined) break;
      await session.record([
        { type: "model.switched", data: { sessionID, from: session.model.ref, to, code, reason: message } },
      ]);
      return false;
    case "later": {
      const until = after(session, decision.delayMs);
      const since = Date.parse(session.state().quotaSince ?? session.now().toISOString());
      if (until.getTime() - since > session.limits.quotaHours * 3_600_000) break;
      const data = { sessionID, code, reason: message, until: until.toISOString() };
      await session.defer({ type: "task.deferred", data }, until);
      return false;
    }
    case "fail":
  }
  await session.record([end()]);
  return false;
};

const after = (session: AgentSession, ms: number): Date => new Date(session.now().getTime() + ms);

/** Attempts in all, including the first. */
export const retryAttempts = 6;

const base = 1_000;

const cap = 60_000;

export type RetryDecision =
  /** Ask the same model again after a wait; `attempt` is the number of that attempt. */
  | { kind: "again"; delayMs: number; attempt: number }
  /** Ask another model that the operator listed. */
  | { kind: "elsewhere" }
  /** The provider asked for a wait longer than `patienceMs`. */
  | { kind: "later"; delayMs: number }
  | { kind: "fail" };

export type Circumstances = {
  /** Another model is available. */
  standIn: boolean;
  /** Longest wait within a run, in milliseconds; for a longer one the Task frees its place until then. */
  patienceMs: number;
  random: () => number;
};

/** Decides what to do after attempt number `attempt` (from 1) has failed. */
export const decideRetry = (
  failed: ModelFailure,
  attempt: number,
  { standIn, patienceMs, random }: Circumstances,
): RetryDecision => {
  const { failure, held, elsewhere, retryAfterMs = 0 } = failed;
  const away: RetryDecision | undefined = standIn && elsewhere === true ? { kind: "elsewhere" } : undefined;
  if (!failure.retryable) return away ?? { kind: "fail" };
  const isLimited = failure.code === "provider_limited";
  if (retryAfterMs > patienceMs && (held !== true || isLimited))
    return away ?? { kind: "later", delayMs: Math.ceil(retryAfterMs) };
  if (held === true) return away ?? { kind: "again", delayMs: Math.ceil(retryAfterMs + random() * base), attempt };
  const delayMs = retryDelay(failed, attempt, random);
  return delayMs === undefined ? (away ?? { kind: "fail" }) : { kind: "again", delayMs, attempt: attempt + 1 };
};

/**
 * Milliseconds before the next attempt; undefined means give up. Exponential backoff with full jitter, so that many
 * Tasks that failed together do not retry together. A delay that the provider asked for takes precedence, with a little
 * jitter added for the same reason.
 */
const retryDelay = (failed: ModelFailure, attempt: number, random: () => number): number | undefined => {
  if (attempt >= retryAttempts) return undefined;
  const asked = failed.retryAfterMs;
  if (asked !== undefined) return Math.ceil(Math.max(0, asked) + random() * Math.min(base, asked / 10));
  return Math.round(random() * Math.min(cap, base * 2 ** (attempt - 1)));
};
