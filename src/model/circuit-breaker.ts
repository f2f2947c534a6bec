import type { Model, ModelFailure } from "./model.ts";
import { noUsage } from "./model.ts";

/**
 * A circuit breaker per provider, shared by all Tasks. After `threshold` failures in a row it holds calls back; after a
 * pause one call probes whether the provider is back, and the others wait until its answer begins. Only an unavailable
 * provider counts as a failure: a refused key or a rate limit is an answer.
 */
export interface Breaker {
  readonly enter: () => Pass;
  readonly state: () => BreakerState;
  /** Takes in what happened to the same provider in another process. */
  readonly hear: (news: BreakerNews) => void;
}

/**
 * What a breaker tells the breakers of the same provider in other processes, so that all act as one. `failed`: one more
 * failure in a row; `open`: calls are held back for `pauseMs`; `probing`: a call probes the provider; `closed`: the
 * provider answered.
 */
export type BreakerNews =
  | readonly ["failed"]
  | readonly ["open", failures: number, pauseMs: number]
  | readonly ["probing"]
  | readonly ["closed"];

export type Pass =
  /**
   * Make the call, report when the answer begins, and then how it ended; "unknown": it was aborted before an answer.
   */
  | { kind: "go"; began: () => void; left: (how: "answered" | "failed" | "unknown") => void }
  /** Another call probes the provider: enter again when `news` resolves, after `probeMs` at most. */
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

/**
 * Where another process has opened the breaker, its probe goes first: after the pause this process waits for it at
 * least this many milliseconds, and at most twice as many.
 */
const behindMs = 750;

/** `threshold` 0: never opens. `probeMs`: how long a probe without any answer keeps others waiting. */
export const createBreaker = (
  threshold: number,
  probeMs: number,
  now: () => number = Date.now,
  tell: (news: BreakerNews) => void = () => {},
): Breaker => {
  let failures = 0;
  let pause = firstPauseMs;
  let openUntil: number | undefined;
  let openSince: number | undefined;
  let probe: Probe | undefined;
  /** Until when this process waits for another one's probe, once calls are no longer held. */
  let othersUntil = 0;

  const close = () => {
    failures = 0;
    pause = firstPauseMs;
    openUntil = undefined;
    openSince = undefined;
    endProbe();
  };
  const endProbe = () => {
    clearTimeout(probe?.timer);
    probe?.tell();
    probe = undefined;
  };
  /** `ms`: after this time the probe keeps nobody waiting any more. */
  const beginProbe = (isOwn: boolean, ms: number, over: (own: Probe) => void): Probe => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const own: Probe = { news: promise, tell: resolve, late: false, isOwn };
    own.timer = setTimeout(() => over(own), ms);
    own.timer.unref();
    probe = own;
    return own;
  };
  const isLate = (own: Probe): void => {
    own.late = true;
    own.tell();
  };
  const answered = () => {
    const wasNews = failures > 0 || openUntil !== undefined;
    close();
    if (wasNews) tell(["closed"]);
  };
  const open = () => {
    openSince ??= now();
    openUntil = now() + pause;
    othersUntil = 0;
    tell(["open", failures, pause]);
  };
  const fail = (probed: boolean) => {
    failures += 1;
    const isBelow = threshold === 0 || failures < threshold;
    if (isBelow && threshold > 0) tell(["failed"]);
    if (isBelow) return;
    // Failures of calls that were in flight when the breaker opened say nothing new.
    if (openUntil !== undefined && !probed) return;
    if (openUntil !== undefined) pause = Math.min(pause * 2, longestPauseMs);
    open();
  };
  const pass = (own: typeof probe): Pass => ({
    kind: "go",
    began() {
      if (own !== undefined && own === probe) answered();
    },
    left(how) {
      clearTimeout(own?.timer);
      if (how === "answered") answered();
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
      if (probe === undefined && othersUntil > now())
        beginProbe(false, Math.min(othersUntil - now(), 2 * behindMs), endProbe);
      if (probe !== undefined) return probe.late ? pass(undefined) : { kind: "wait", news: probe.news };
      tell(["probing"]);
      return pass(beginProbe(true, probeMs, isLate));
    },
    hear(news) {
      if (threshold === 0) return;
      if (news[0] === "closed") return close();
      if (news[0] === "probing") {
        if (openUntil === undefined || probe?.isOwn === true) return;
        const before = probe;
        clearTimeout(before?.timer);
        beginProbe(false, probeMs, isLate);
        // Calls that waited for the probe to begin enter again, and wait for its answer.
        return before?.tell();
      }
      if (news[0] === "failed") {
        if (openUntil !== undefined) return;
        failures += 1;
        // The process that has seen all failures announces that its breaker is open; without that message this one
        // opens all the same.
        if (failures < threshold) return;
        openSince ??= now();
        openUntil = now() + pause;
      } else {
        const [, seen, pauseMs] = news;
        failures = Math.max(failures, seen);
        pause = Math.min(Math.max(pauseMs, firstPauseMs), longestPauseMs);
        openSince ??= now();
        openUntil = now() + pause;
        if (probe?.isOwn !== true) endProbe();
      }
      othersUntil = openUntil + behindMs * (1 + Math.random());
    },
    state: () => ({
      state: openUntil === undefined ? "closed" : openUntil > now() ? "open" : "half-open",
      failures,
      since: openSince === undefined ? null : new Date(openSince).toISOString(),
      retryAt: openUntil === undefined ? null : new Date(openUntil).toISOString(),
    }),
  };
};

/** A call that finds out whether the provider is back, here or in another process. */
type Probe = { news: Promise<void>; tell: () => void; late: boolean; isOwn: boolean; timer?: NodeJS.Timeout };

/** Reads news that another process sent; undefined: it is none. */
export const newsOf = ([kind, failures, pauseMs]: readonly unknown[]): BreakerNews | undefined => {
  if (kind === "failed" || kind === "probing" || kind === "closed") return [kind];
  if (kind !== "open" || typeof failures !== "number" || typeof pauseMs !== "number") return undefined;
  return failures >= 0 && pauseMs >= 0 ? [kind, failures, pauseMs] : undefined;
};

/**
 * Wraps a model with its provider's breaker. A call that is held back fails without counting as an attempt; a call that
 * waits for a probe does not fail, and leaves nothing on record.
 */
export const withCircuitBreaker = (model: Model, breaker: Breaker): Model => ({
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
