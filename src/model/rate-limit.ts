import { type Model, type ModelFailure, noUsage } from "./model.ts";

/**
 * A pause per model, shared by all Tasks: when its provider limits the rate of requests and says for how long, calls
 * are held back until then, so that not every Task runs into the limit.
 */
export interface RateLimit {
  /** Milliseconds for which calls are still held back; 0: they are not. */
  readonly left: () => number;
  /** Takes in such a pause, asked for by the provider here or in another process. */
  readonly pause: (ms: number) => void;
}

/**
 * The longest pause that is shared. A longer one is left to each Task: it hears of the limit by itself, gives up its
 * place, and tries again at once when somebody writes to it.
 */
const longestMs = 60_000;

/** `now`: milliseconds of a monotonic clock. */
export const createRateLimit = (now: () => number = () => performance.now()): RateLimit => {
  let until = Number.NEGATIVE_INFINITY;
  return {
    left: () => Math.max(0, Math.ceil(until - now())),
    pause(ms) {
      if (ms > 0 && ms <= longestMs) until = Math.max(until, now() + ms);
    },
  };
};

/**
 * Wraps a model with its pause. `tell` passes on a pause to others that call the same model. A call that is held back
 * does not count as an attempt.
 */
export const withRateLimitPause = (model: Model, limit: RateLimit, tell: (ms: number) => void): Model => ({
  ...model,
  async reply(request) {
    request.signal.throwIfAborted();
    const leftMs = limit.left();
    if (leftMs > 0) return held(model, leftMs);
    const reply = await model.reply(request);
    if (!reply.ok && reply.failure.code === "provider_limited" && reply.retryAfterMs !== undefined) {
      limit.pause(reply.retryAfterMs);
      tell(reply.retryAfterMs);
    }
    return reply;
  },
});

const held = ({ ref }: Model, retryAfterMs: number): ModelFailure => {
  const provider = ref.slice(0, ref.indexOf("/"));
  const message = `${provider} limits the rate of requests; calls to ${ref} pause for ${Math.ceil(retryAfterMs / 1000)} s.`;
  return {
    ok: false,
    failure: { code: "provider_limited", message, retryable: true, remedy: null },
    retryAfterMs,
    held: true,
    elsewhere: true,
    usage: noUsage,
  };
};
