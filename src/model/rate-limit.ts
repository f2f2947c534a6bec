import { type Model, type ModelFailure, noUsage } from "./model.ts";

/**
 * A pause per model, shared by all Tasks: when its provider limits the rate of requests and says for how long, calls
 * are held back until then, instead of each being told the same.
 */
export interface RateLimit {
  /** Milliseconds for which calls are held back; 0: they are not. */
  readonly left: () => number;
  /** The provider asked for such a pause, here or in another process. */
  readonly pause: (ms: number) => void;
}

/**
 * A longer one is no window that passes for all: each Task hears of it by itself, gives its place up, and tries again
 * at once when somebody writes to it.
 */
const longestMs = 60_000;

/** By the monotonic clock. */
export const createRateLimit = (now: () => number = () => performance.now()): RateLimit => {
  let until = Number.NEGATIVE_INFINITY;
  return {
    left: () => Math.max(0, Math.ceil(until - now())),
    pause(ms) {
      if (ms > 0 && ms <= longestMs) until = Math.max(until, now() + ms);
    },
  };
};

/** Wraps a model with its pause. `tell`: others call the same model. A call that is held back counts as no attempt. */
export const paced = (model: Model, limit: RateLimit, tell: (ms: number) => void): Model => ({
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
