import type { Model, ModelFailure } from "./model.ts";
import { noUsage } from "./model.ts";

/**
 * A circuit breaker per provider, shared by all Tasks. After `threshold` failures in a row it holds calls back; after a
 * pause it lets one call at a time probe whether the provider is back. Only an unavailable provider counts as a
 * failure: a refused key or a rate limit is an answer.
 */
export interface Breaker {
  /** 0: make the call, then report its outcome with `left`. Else the milliseconds to wait before asking again. */
  readonly enter: () => number;
  /** "unknown": the call was aborted before an answer. */
  readonly left: (how: "answered" | "failed" | "unknown") => void;
  readonly state: () => BreakerState;
}

export type BreakerState = {
  state: "closed" | "open" | "half-open";
  /** Failures in a row. */
  failures: number;
  /** Since when calls are held back; null while closed. */
  since: string | null;
  /** When the next call may probe the provider; null while closed. */
  retryAt: string | null;
};

const firstPauseMs = 5_000;
const longestPauseMs = 60_000;
/** How long other calls wait while one probes. */
const probingMs = 2_000;

/** `threshold` 0: never opens. */
export const createBreaker = (threshold: number, now: () => number = Date.now): Breaker => {
  let failures = 0;
  let pause = firstPauseMs;
  let openUntil: number | undefined;
  let openSince: number | undefined;
  let probing = false;
  return {
    enter() {
      if (openUntil === undefined) return 0;
      // Bounded, so that a clock that was set back does not keep the breaker open.
      const wait = Math.min(openUntil - now(), longestPauseMs);
      if (wait > 0) return wait;
      if (probing) return probingMs;
      probing = true;
      return 0;
    },
    left(how) {
      const probed = probing;
      probing = false;
      if (how === "unknown") return;
      if (how === "answered") {
        failures = 0;
        pause = firstPauseMs;
        openUntil = undefined;
        openSince = undefined;
        return;
      }
      failures += 1;
      if (threshold === 0 || failures < threshold) return;
      // Failures of calls that were in flight when the breaker opened are no news.
      if (openUntil !== undefined && !probed) return;
      if (probed) pause = Math.min(pause * 2, longestPauseMs);
      openSince ??= now();
      openUntil = now() + pause;
    },
    state: () => ({
      state: openUntil === undefined ? "closed" : openUntil > now() ? "open" : "half-open",
      failures,
      since: openSince === undefined ? null : new Date(openSince).toISOString(),
      retryAt: openUntil === undefined ? null : new Date(openUntil).toISOString(),
    }),
  };
};

/** Wraps a model with its provider's breaker. A call that is held back is a failure that counts as no attempt. */
export const guarded = (model: Model, breaker: Breaker): Model => ({
  ...model,
  async reply(request) {
    request.signal.throwIfAborted();
    const waitMs = breaker.enter();
    if (waitMs > 0) return held(model, breaker.state(), waitMs);
    let how: "answered" | "failed" | "unknown" = "unknown";
    try {
      const reply = await model.reply(request);
      how = !reply.ok && reply.failure.code === "provider_unavailable" ? "failed" : "answered";
      return reply;
    } finally {
      breaker.left(how);
    }
  },
});

const held = ({ ref }: Model, { failures }: BreakerState, retryAfterMs: number): ModelFailure => {
  const provider = ref.slice(0, ref.indexOf("/"));
  const message = `${provider} failed ${failures} times in a row and is left alone for ${Math.ceil(retryAfterMs / 1000)} s.`;
  return {
    ok: false,
    failure: { code: "provider_unavailable", message, retryable: true, remedy: null },
    retryAfterMs,
    held: true,
    elsewhere: true,
    usage: noUsage,
  };
};
