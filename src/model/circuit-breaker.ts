import type { Model, ModelFailure } from "./model.ts";
import { noUsage } from "./model.ts";

/**
 * A circuit breaker per provider, shared by all Tasks. After `threshold` failures in a row it holds calls back; after a
 * pause one call probes whether the provider is back, and others wait until that begins to be answered. Only an
 * unavailable provider counts as a failure: a refused key or a rate limit is an answer.
 */
export interface Breaker {
  readonly enter: () => Pass;
  readonly state: () => BreakerState;
}

export type Pass =
  /** Make the call, say when the answer begins, and then how it ended; "unknown": it was aborted before an answer. */
  | { kind: "go"; began: () => void; left: (how: "answered" | "failed" | "unknown") => void }
  /** Another call probes: enter again when `news` resolves, which takes at most `probeMs`. */
  | { kind: "wait"; news: Promise<void> }
  | { kind: "held"; waitMs: number };

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

/** `threshold` 0: never opens. `probeMs`: how long a probe without any answer keeps others waiting. */
export const createBreaker = (threshold: number, probeMs: number, now: () => number = Date.now): Breaker => {
  let failures = 0;
  let pause = firstPauseMs;
  let openUntil: number | undefined;
  let openSince: number | undefined;
  let probe: { news: Promise<void>; tell: () => void; late: boolean } | undefined;

  const close = () => {
    failures = 0;
    pause = firstPauseMs;
    openUntil = undefined;
    openSince = undefined;
    probe?.tell();
    probe = undefined;
  };
  const fail = (probed: boolean) => {
    failures += 1;
    if (threshold === 0 || failures < threshold) return;
    // Failures of calls that were in flight when the breaker opened are no news.
    if (openUntil !== undefined && !probed) return;
    if (openUntil !== undefined) pause = Math.min(pause * 2, longestPauseMs);
    openSince ??= now();
    openUntil = now() + pause;
  };
  const pass = (own: typeof probe, timer?: NodeJS.Timeout): Pass => ({
    kind: "go",
    began() {
      if (own !== undefined && own === probe) close();
    },
    left(how) {
      clearTimeout(timer);
      if (how === "answered") close();
      const probed = own !== undefined && own === probe;
      if (how === "failed") fail(probed);
      if (!probed) return;
      probe = undefined;
      own.tell();
    },
  });

  return {
    enter() {
      if (openUntil === undefined) return pass(undefined);
      // Bounded, so that a clock that was set back does not keep the breaker open.
      const waitMs = Math.min(openUntil - now(), longestPauseMs);
      if (waitMs > 0) return { kind: "held", waitMs };
      if (probe !== undefined) return probe.late ? pass(undefined) : { kind: "wait", news: probe.news };
      const { promise, resolve } = Promise.withResolvers<void>();
      const own = { news: promise, tell: resolve, late: false };
      probe = own;
      const timer = setTimeout(() => {
        own.late = true;
        own.tell();
      }, probeMs);
      timer.unref();
      return pass(own, timer);
    },
    state: () => ({
      state: openUntil === undefined ? "closed" : openUntil > now() ? "open" : "half-open",
      failures,
      since: openSince === undefined ? null : new Date(openSince).toISOString(),
      retryAt: openUntil === undefined ? null : new Date(openUntil).toISOString(),
    }),
  };
};

/**
 * Wraps a model with its provider's breaker. A call that is held back is a failure that counts as no attempt; one that
 * waits for a probe is not, and leaves nothing on record.
 */
export const guarded = (model: Model, breaker: Breaker): Model => ({
  ...model,
  async reply(request) {
    for (;;) {
      request.signal.throwIfAborted();
      const pass = breaker.enter();
      if (pass.kind === "held") return held(model, breaker.state(), pass.waitMs);
      if (pass.kind === "wait") {
        await unlessAborted(pass.news, request.signal);
        continue;
      }
      let how: "answered" | "failed" | "unknown" = "unknown";
      try {
        const reply = await model.reply({ ...request, onBegin: pass.began });
        how = !reply.ok && reply.failure.code === "provider_unavailable" ? "failed" : "answered";
        return reply;
      } finally {
        pass.left(how);
      }
    }
  },
});

const unlessAborted = async (news: Promise<void>, signal: AbortSignal): Promise<void> => {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  try {
    await Promise.race([news, aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
};

const held = ({ ref }: Model, { failures }: BreakerState, retryAfterMs: number): ModelFailure => {
  const provider = ref.slice(0, ref.indexOf("/"));
  const message = `${provider} failed ${failures} times in a row; calls to it pause for ${Math.ceil(retryAfterMs / 1000)} s.`;
  return {
    ok: false,
    failure: { code: "provider_unavailable", message, retryable: true, remedy: null },
    retryAfterMs,
    held: true,
    elsewhere: true,
    usage: noUsage,
  };
};
