import type { ModelFailure } from "../../model/model.ts";

/** What follows a failed model call. Pure: the caller brings the attempt and the chance. */

/** Calls in all, the first included. */
export const retryAttempts = 6;
const base = 1_000;
const cap = 60_000;
export type Sequel =
  /** The same model again, after a wait; `attempt` is the number of that call. */
  | { kind: "again"; delayMs: number; attempt: number }
  /** Another model that the operator listed. */
  | { kind: "elsewhere" }
  /** The provider named a time far off. */
  | { kind: "later"; delayMs: number }
  | { kind: "fail" };

export type Circumstances = {
  /** There is another model to ask. */
  standIn: boolean;
  /** Longest wait within a run; for a longer one the Task gives its place to others until then. */
  patienceMs: number;
  random: () => number;
};

/** After call number `attempt` (from 1) failed. */
export const sequelOf = (
  failed: ModelFailure,
  attempt: number,
  { standIn, patienceMs, random }: Circumstances,
): Sequel => {
  const { failure, held, elsewhere, retryAfterMs = 0 } = failed;
  const away: Sequel | undefined = standIn && elsewhere === true ? { kind: "elsewhere" } : undefined;
  if (!failure.retryable) return away ?? { kind: "fail" };
  if (held === true) return away ?? { kind: "again", delayMs: Math.ceil(retryAfterMs + random() * base), attempt };
  if (retryAfterMs > patienceMs) return away ?? { kind: "later", delayMs: Math.ceil(retryAfterMs) };
  const delayMs = retryDelay(failed, attempt, random);
  return delayMs === undefined ? (away ?? { kind: "fail" }) : { kind: "again", delayMs, attempt: attempt + 1 };
};

/**
 * Milliseconds before the next call; undefined = give up. Exponential with full jitter, so that many Tasks that failed
 * together do not come back together; what the provider asked wins, with a little on top for the same reason.
 */
const retryDelay = (failed: ModelFailure, attempt: number, random: () => number): number | undefined => {
  if (attempt >= retryAttempts) return undefined;
  const asked = failed.retryAfterMs;
  if (asked !== undefined) return Math.ceil(Math.max(0, asked) + random() * Math.min(base, asked / 10));
  return Math.round(random() * Math.min(cap, base * 2 ** (attempt - 1)));
};
