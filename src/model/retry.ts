import type { ModelFailure } from "./model.ts";

/** How often and when a failed model call is made again. Pure: the caller brings the attempt and the chance. */

/** Calls in all, the first included. */
export const retryAttempts = 6;
const base = 1_000;
const cap = 60_000;
/** Longest wait that a provider's `Retry-After` may ask of us. */
const patience = 600_000;

/**
 * Milliseconds before the next call, after call number `attempt` (from 1) failed; undefined = give up. Exponential
 * with full jitter, so that many Tasks that failed together do not come back together; what the provider asked wins.
 */
export const retryDelay = (failed: ModelFailure, attempt: number, random: () => number): number | undefined => {
  if (!failed.failure.retryable || attempt >= retryAttempts) return undefined;
  if (failed.retryAfterMs !== undefined) return Math.min(Math.max(0, Math.ceil(failed.retryAfterMs)), patience);
  return Math.round(random() * Math.min(cap, base * 2 ** (attempt - 1)));
};
