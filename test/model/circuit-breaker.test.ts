import { describe, expect, test } from "vitest";
import {
  type Breaker,
  type BreakerNews,
  createBreaker,
  withCircuitBreaker,
  newsOf,
} from "../../src/model/circuit-breaker.ts";
import { type Model, type ModelFailure, type ModelReply, type ModelRequest, noUsage } from "../../src/model/model.ts";
import { requestOf, user } from "./suite.ts";

/** A provider that fails again and again is left alone, whoever asks, and one call finds out whether it is back. */

const good: ModelReply = { ok: true, text: "Hi.", calls: [], finish: "end", usage: noUsage };
const bad = (code = "provider_unavailable"): ModelFailure => ({
  ok: false,
  failure: { code, message: "no", retryable: true, remedy: null },
  usage: noUsage,
});

const lab = (threshold = 3, probeMs = 60_000, clock = { now: 1_000_000 }) => {
  const told: BreakerNews[] = [];
  const others: Breaker[] = [];
  const breaker = createBreaker(
    threshold,
    probeMs,
    () => clock.now,
    (news) => {
      told.push(news);
      for (const other of others) other.hear(news);
    },
  );
  let calls = 0;
  type Answer = (request: ModelRequest) => Promise<ModelReply | ModelFailure>;
  let answer: Answer = async () => good;
  const model: Model = {
    ref: "acme/large",
    retries: true,
    window: 1_000,
    takes: { images: false, pdf: false, tools: true },
    reply: (request) => {
      calls += 1;
      return answer(request);
    },
  };
  const behind = withCircuitBreaker(model, breaker);
  return {
    clock,
    breaker,
    told,
    others,
    calls: () => calls,
    ask: (signal?: AbortSignal) => behind.reply(requestOf([user("x")], signal === undefined ? {} : { signal })),
    answers: (next: Answer) => {
      answer = next;
    },
  };
};

describe("breaker", () => {
  test("opens after failures in a row, half-opens for one call, closes with an answer", async () => {
    const { clock, breaker, calls, ask, answers } = lab();
    answers(async () => bad());
    await ask();
    await ask();
    answers(async () => good);
    await ask();
    // The answer began the count anew.
    answers(async () => bad());
    for (const _ of [1, 2, 3]) expect(await ask()).not.toHaveProperty("held");
    expect(calls()).toBe(6);
    expect(breaker.state()).toMatchObject({ state: "open", failures: 3 });
    expect(await ask()).toMatchObject({ held: true, retryAfterMs: 5_000, failure: { retryable: true } });
    expect(calls()).toBe(6);

    clock.now += 5_000;
    expect(breaker.state().state).toBe("half-open");
    const probe = Promise.withResolvers<ModelReply | ModelFailure>();
    answers(() => probe.promise);
    const probing = ask();
    const waiting = ask();
    probe.resolve(bad());
    expect(await probing).not.toHaveProperty("held");
    expect(await waiting).toMatchObject({ held: true, retryAfterMs: 10_000 });
    expect(calls()).toBe(7);
    // Twice as long now.
    clock.now += 9_999;
    expect(await ask()).toMatchObject({ held: true, retryAfterMs: 1 });
    clock.now += 1;
    answers(async () => good);
    expect(await ask()).toEqual(good);
    expect(breaker.state()).toEqual({ state: "closed", failures: 0, since: null, retryAt: null });
    expect(await ask()).toEqual(good);
  });

  test("the pause grows to a minute and no further, whatever the clock does", async () => {
    const { clock, ask, answers } = lab(1);
    answers(async () => bad());
    for (const pause of [5_000, 10_000, 20_000, 40_000, 60_000, 60_000]) {
      await ask();
      expect(await ask()).toMatchObject({ held: true, retryAfterMs: pause });
      clock.now += pause;
    }
    await ask();
    clock.now -= 86_400_000;
    expect(await ask()).toMatchObject({ held: true, retryAfterMs: 60_000 });
  });

  test("answers of other kinds do not count, and a call given up gives the probe back", async () => {
    const { clock, breaker, calls, ask, answers } = lab(2);
    for (const code of ["provider_limited", "provider_refused", "context_too_long"]) {
      answers(async () => bad(code));
      for (const _ of [1, 2, 3]) await ask();
    }
    expect(breaker.state().state).toBe("closed");
    answers(async () => bad());
    await ask();
    await ask();
    expect(breaker.state().state).toBe("open");
    clock.now += 5_000;
    answers(() => Promise.reject(new Error("cancelled")));
    await expect(ask()).rejects.toThrow("cancelled");
    answers(async () => good);
    expect(await ask()).toEqual(good);
    expect(calls()).toBe(13);
    await expect(ask(AbortSignal.abort(new Error("stop")))).rejects.toThrow("stop");
  });

  /** Half-open, with one call that probes and waits for `end`. */
  const probing = async (probeMs?: number) => {
    const it = lab(1, probeMs);
    it.answers(async () => bad());
    await it.ask();
    it.clock.now += 5_000;
    const end = Promise.withResolvers<ModelReply | ModelFailure>();
    let begin: () => void = () => {};
    it.answers(({ onBegin }) => {
      begin = () => onBegin?.();
      return end.promise;
    });
    const probe = it.ask();
    it.answers(async () => good);
    return { ...it, probe, end, begin: () => begin() };
  };

  test("others wait for the probe's first byte, not for its end", async () => {
    const { clock, breaker, calls, ask, answers, probe, end, begin } = await probing();
    const others = [ask(), ask()];
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(calls()).toBe(2);
    begin();
    expect(await Promise.all(others)).toEqual([good, good]);
    expect(breaker.state().state).toBe("closed");
    // It broke off later: a failure like any other.
    answers(async () => bad());
    await ask();
    clock.now += 5_000;
    answers(async () => good);
    // Half-open again, while the answer to the probe before still arrives: that one is no probe any more.
    expect(await ask()).toEqual(good);
    end.resolve(bad());
    await probe;
    expect(breaker.state()).toMatchObject({ state: "open", failures: 1 });
    expect(await ask()).toMatchObject({ held: true, retryAfterMs: 5_000 });
  });

  test("they wait for a silent probe only so long, and its failure still counts", async () => {
    const { breaker, calls, ask, probe, end } = await probing(30);
    expect(await ask()).toEqual(good);
    expect(calls()).toBe(3);
    const again = await probing(30);
    await new Promise((resolve) => setTimeout(resolve, 40));
    again.end.resolve(bad());
    await again.probe;
    expect(again.breaker.state().state).toBe("open");
    end.resolve(good);
    await probe;
    expect(breaker.state().state).toBe("closed");
  });

  test("who waits can be cancelled, and an aborted probe is followed by the next", async () => {
    const { calls, ask, probe, end } = await probing();
    const stop = new AbortController();
    const cancelled = ask(stop.signal);
    const next = ask();
    stop.abort(new Error("stop"));
    await expect(cancelled).rejects.toThrow("stop");
    expect(calls()).toBe(2);
    end.reject(new Error("cancelled"));
    await expect(probe).rejects.toThrow("cancelled");
    expect(await next).toEqual(good);
    expect(calls()).toBe(3);
  });

  test("control: without a threshold it never opens", async () => {
    const { calls, ask, answers } = lab(0);
    answers(async () => bad());
    for (let count = 0; count < 20; count += 1) expect(await ask()).not.toHaveProperty("held");
    expect(calls()).toBe(20);
  });

  describe("of several processes", () => {
    /** Breakers of one provider in so many processes, which hear of each other, or do not. */
    const among = (count: number, hear = true) => {
      const clock = { now: 1_000_000 };
      const all = Array.from({ length: count }, () => lab(3, 60_000, clock));
      if (hear)
        for (const one of all) one.others.push(...all.filter((other) => other !== one).map(({ breaker }) => breaker));
      const states = () => all.map(({ breaker }) => breaker.state().state);
      return { clock, all, states };
    };

    test("failures count together, and what is held at one is held at all; control: who hears of nothing calls on", async () => {
      for (const hear of [true, false]) {
        const { all, states } = among(3, hear);
        for (const one of all) {
          one.answers(async () => bad());
          await one.ask();
        }
        expect(states()).toEqual(Array(3).fill(hear ? "open" : "closed"));
        for (const one of all) {
          if (hear) expect(await one.ask()).toMatchObject({ held: true, retryAfterMs: 5_000 });
          else expect(await one.ask()).not.toHaveProperty("held");
        }
        expect(all.map(({ calls }) => calls())).toEqual(Array(3).fill(hear ? 1 : 2));
      }
    });

    test("one finds out whether the provider is back; an answer opens all again, a failure holds all for longer", async () => {
      const { clock, all, states } = among(3);
      const [first, second, third] = all as [(typeof all)[0], (typeof all)[0], (typeof all)[0]];
      for (const one of all) one.answers(async () => bad());
      for (const _ of [1, 2, 3]) await second.ask();
      clock.now += 5_000;
      const end = Promise.withResolvers<ModelReply | ModelFailure>();
      second.answers(() => end.promise);
      // The others begin no probe of their own, also where they ask first.
      const waiting = [first.ask(), third.ask()];
      const probe = second.ask();
      await new Promise((resolve) => setTimeout(resolve, 20));
      expect(all.map(({ calls }) => calls())).toEqual([0, 4, 0]);
      end.resolve(bad());
      await probe;
      for (const held of await Promise.all(waiting)) expect(held).toMatchObject({ held: true, retryAfterMs: 10_000 });
      expect(states()).toEqual(["open", "open", "open"]);

      clock.now += 10_000;
      second.answers(async () => good);
      const [later] = [third.ask()];
      third.answers(async () => good);
      expect(await second.ask()).toEqual(good);
      expect(await later).toMatchObject({ ok: true });
      expect(states()).toEqual(["closed", "closed", "closed"]);
      expect(first.breaker.state().failures).toBe(0);
    });

    test("where the one that opened it asks no more, another one finds out", async () => {
      const { clock, all } = among(2);
      const [first, second] = all as [(typeof all)[0], (typeof all)[0]];
      first.answers(async () => bad());
      for (const _ of [1, 2, 3]) await first.ask();
      clock.now += 5_000;
      second.answers(async () => good);
      const asked = second.ask();
      await new Promise((resolve) => setTimeout(resolve, 50));
      expect(second.calls()).toBe(0);
      clock.now += 2_000;
      expect(await asked).toEqual(good);
      expect(first.breaker.state().state).toBe("closed");
    });

    test("what is no news is not heard, and nothing is told where nothing changes", async () => {
      for (const words of [[], ["opened"], ["open"], ["open", -1, 5], ["open", 3, "5"], ["open", Number.NaN, 5], [{}]])
        expect([words, newsOf(words)]).toEqual([words, undefined]);
      expect(newsOf(["open", 3, 5_000])).toEqual(["open", 3, 5_000]);
      const { told, ask, answers } = lab();
      await ask();
      expect(told).toEqual([]);
      answers(async () => bad());
      await ask();
      answers(async () => good);
      await ask();
      await ask();
      expect(told).toEqual([["failed"], ["closed"]]);
    });
  });
});
