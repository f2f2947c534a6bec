import type { Model, ModelFailure } from "./model.ts";
import { noUsage } from "./model.ts";

/**
 * One per provider, for all Tasks. After so many failures in a row nobody asks any more but, after a pause, one call
 * at a time that finds out whether it is back. Only what says that the provider is in trouble counts: a refused key or
 * a rate limit is an answer.
 */
export interface Breaker {
  /** 0: ask, and say with `left` how it went. Else milliseconds to wait. */
  readonly enter: () => number;
  /** "unknown": the call was given up before there was an answer. */
  readonly left: (how: "answered" | "failed" | "unknown") => void;
  readonly state: () => BreakerState;
}

export type BreakerState = {
  state: "closed" | "open" | "half-open";
  /** Failures in a row. */
  failures: number;
  /** When the next call may find out; null while closed. */
  retryAt: string | null;
};

const firstPauseMs = 5_000;
const longestPauseMs = 60_000;
/** How long others wait while one finds out. */
const probingMs = 2_000;

/** `threshold` 0: never opens. */
export const createBreaker = (threshold: number, now: () => number = Date.now): Breaker => {
  let failures = 0;
  let pause = firstPauseMs;
  let openUntil: number | undefined;
  let probing = false;
  return {
    enter() {
      if (openUntil === undefined) return 0;
      // A clock that was set back must not keep it open.
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
        return;
      }
      failures += 1;
      if (threshold === 0 || failures < threshold) return;
      // Calls that were under way when it opened say nothing new.
      if (openUntil !== undefined && !probed) return;
      if (probed) pause = Math.min(pause * 2, longestPauseMs);
      openUntil = now() + pause;
    },
    state: () => ({
      state: openUntil === undefined ? "closed" : openUntil > now() ? "open" : "half-open",
      failures,
      retryAt: openUntil === undefined ? null : new Date(openUntil).toISOString(),
    }),
  };
};

/** The model behind its provider's breaker. A call that is held back is a failure of no attempt. */
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
