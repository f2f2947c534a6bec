import type { PostResult } from "../outbound/request.ts";
import type { DeliveryState } from "../store/webhook-queue.ts";

/** When a failed attempt is made again. Pure: what came, the time and chance are given. */

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;

/** From one attempt to the next, as Standard Webhooks advises; the first one is made at once. Ten attempts in all. */
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

/** A webhook whose every attempt failed for so long is disabled. */
export const longestFailing = 5 * 24 * hour;

/** The longest that a target may put us off. */
const longestRetryAfter = 24 * hour;

/** What becomes of a delivery after an attempt that failed; `attempts`: with this one. */
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

/** `Retry-After` in milliseconds: seconds, or a date. */
const waitOf = (header: string | undefined, now: number): number => {
  if (header === undefined) return 0;
  if (/^\d{1,9}$/.test(header)) return Number(header) * second;
  const at = Date.parse(header);
  return Number.isNaN(at) ? 0 : Math.max(0, at - now);
};
