import { expect, test } from "vitest";
import { decideRetry } from "../../src/agent/loop/failure.ts";
import { type Model, type ModelFailure, type ModelReply, noUsage } from "../../src/model/model.ts";
import { createRateLimit, withRateLimitPause } from "../../src/model/rate-limit.ts";

/** What all Tasks know of a provider that limits the rate of requests. */

const good: ModelReply = { ok: true, text: "Done.", calls: [], finish: "end", usage: noUsage };
const limited = (retryAfterMs?: number, code = "provider_limited"): ModelFailure => ({
  ok: false,
  failure: { code, message: "slow down", retryable: true, remedy: null },
  ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  usage: noUsage,
});

const lab = () => {
  const clock = { now: 1_000 };
  const limit = createRateLimit(() => clock.now);
  const told: number[] = [];
  let answer: ModelReply | ModelFailure = good;
  let calls = 0;
  const model = {
    ref: "mock/large",
    reply: () => {
      calls += 1;
      return Promise.resolve(answer);
    },
  } as unknown as Model;
  const waiting = withRateLimitPause(model, limit, (ms) => told.push(ms));
  const request = (signal = new AbortController().signal) => ({ signal }) as Parameters<Model["reply"]>[0];
  return {
    clock,
    limit,
    told,
    calls: () => calls,
    ask: (signal?: AbortSignal) => waiting.reply(request(signal)),
    answers: (next: ModelReply | ModelFailure) => {
      answer = next;
    },
  };
};

test("one call is told how long to wait, and no other asks before that is over", async () => {
  const { ask, answers, calls, clock, told } = lab();
  answers(limited(20_000));
  expect(await ask()).toEqual(limited(20_000));
  answers(good);
  clock.now += 5_000;
  for (const _ of [1, 2, 3])
    expect(await ask()).toMatchObject({ held: true, elsewhere: true, retryAfterMs: 15_000, usage: noUsage });
  expect(await ask()).toMatchObject({
    failure: {
      code: "provider_limited",
      message: "mock limits the rate of requests; calls to mock/large pause for 15 s.",
      retryable: true,
    },
  });
  expect([calls(), told]).toEqual([1, [20_000]]);
  clock.now += 15_000;
  expect(await ask()).toEqual(good);
});

test("another process's pause is this one's, too; a shorter one takes nothing away", async () => {
  const { ask, limit, calls, clock, told } = lab();
  limit.pause(10_000);
  limit.pause(1_000);
  expect(await ask()).toMatchObject({ held: true, retryAfterMs: 10_000 });
  clock.now += 10_000;
  expect(await ask()).toEqual(good);
  expect([calls(), told]).toEqual([1, []]);
});

test.each([
  ["without a time", limited()],
  ["above a minute, which each Task hears for itself", limited(60_001)],
  ["of a provider that is away", limited(5_000, "provider_unavailable")],
])("control: an answer %s holds nobody", async (_, answer) => {
  const { ask, answers, calls } = lab();
  answers(answer);
  await ask();
  answers(good);
  expect(await ask()).toEqual(good);
  expect(calls()).toBe(2);
});

test("who is held has made no attempt, and gives its place up where the pause is longer than its patience", async () => {
  const { ask, answers, limit } = lab();
  limit.pause(20_000);
  answers(good);
  const failed = await ask();
  if (failed.ok) throw new Error("Expected a call that is held back, got a reply");
  const circumstances = { standIn: false, patienceMs: 30_000, random: () => 0 };
  expect(decideRetry(failed, 3, circumstances)).toEqual({ kind: "again", delayMs: 20_000, attempt: 3 });
  expect(decideRetry(failed, 3, { ...circumstances, patienceMs: 10_000 })).toEqual({ kind: "later", delayMs: 20_000 });
  expect(decideRetry(failed, 3, { ...circumstances, standIn: true })).toEqual({ kind: "elsewhere" });
  await expect(ask(AbortSignal.abort(new Error("stop")))).rejects.toThrow("stop");
});
