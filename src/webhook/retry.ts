import type { PostResult } from "../outbound/request.ts";
import type { DeliveryState } from "../store/webhook-queue.ts";

/** When a failed attempt is repeated. Pure: time and randomness are arguments. */

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;

/**
 * Milliseconds from one attempt to the next, as Standard Webhooks recommends; the first attempt is immediate. Ten
 * attempts in all.
 */
export const retryDelays: readonly number[] = [
  5 * second,
  5 * minute,
  30 * minute,
  2 * hour,
  5 * hour,
  10 * hour,
  14 * hour,
  20 * hour,
  24 * hour,
];

/** A webhook is disabled when all attempts failed for this long, in milliseconds. */
export const longestFailing = 5 * 24 * hour;

/** Longest `Retry-After` that is honoured, in milliseconds. */
const longestRetryAfter = 24 * hour;

/** The state of a delivery after a failed attempt. `attempts` includes that attempt. */
export const afterFailure = (
  attempts: number,
  answer: Pick<PostResult, "status" | "retryAfter"> | undefined,
  now: number,
  random: () => number,
): { state: DeliveryState; dueAt: number } => {
  const delay = retryDelays[attempts - 1];
  if (delay === undefined || answer?.status === 410) return { state: "dead", dueAt: now };
  const jittered = delay * (1 + random() / 5);
  const wished = answer?.status === 429 || answer?.status === 503 ? waitOf(answer.retryAfter, now) : 0;
  return { state: "pending", dueAt: Math.round(now + Math.max(jittered, Math.min(wished, longestRetryAfter))) };
};

/** `Retry-After` in milliseconds; the header holds seconds or a date. */
const waitOf = (header: string | undefined, now: number): number => {
  if (header === undefined) return 0;
  if (/^\d{1,9}$/.test(header)) return Number(header) * second;
  const at = Date.parse(header);
  return Number.isNaN(at) ? 0 : Math.max(0, at - now);
};
