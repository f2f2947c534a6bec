import { describe, expect, test } from "vitest";
import { cancel } from "../../src/domain/task/cancel.ts";
import type { DomainEvent } from "../../src/domain/event.ts";
import { next } from "../../src/domain/task/next/next.ts";
import type { StepPolicy } from "../../src/domain/task/next/step.ts";
import { phaseOf, summarise } from "../../src/domain/view/summary.ts";
import { evolve } from "../../src/domain/task/evolve.ts";
import type { TaskState } from "../../src/domain/state/task.ts";
import { created } from "../harness/events.ts";

/** A provider that cannot answer, in facts: put off until its quota is back, or replaced by another model. */

const rules: StepPolicy = {
  checkRounds: 3,
  retries: true,
  plans: true,
  reviews: false,
  own: [],
  doubted: [],
  sources: false,
  contrast: true,
  stop: undefined,
};
const at = (minute: number) => new Date(Date.UTC(2026, 10, 21, 8, minute)).toISOString();

const fold = (facts: readonly [minute: number, DomainEvent][]): TaskState => {
  let state: TaskState | undefined;
  facts.forEach(([minute, event], index) => {
    const version = index + 1;
    state = evolve(state, { ...event, stream: "task_1", position: version, version, at: at(minute) });
  });
  if (state === undefined) throw new Error("no events");
  return state;
};

const task = created({ model: "one/large", sessionID: "ses_1" });
const run: DomainEvent = {
  type: "run.started",
  data: { worker: "w", epoch: 1, sandbox: { tier: 3, name: "process-group", network: true }, killed: [] },
};
const deferred: DomainEvent = {
  type: "task.deferred",
  data: { sessionID: "ses_1", code: "provider_limited", reason: "slow down", until: at(300) },
};
const switched = (from: "one/large" | "two/small", to: "two/small" | "three/x"): DomainEvent => ({
  type: "model.switched",
  data: { sessionID: "ses_1", from, to, code: "provider_refused", reason: "no credit" },
});
const reply: DomainEvent = {
  type: "reply.finished",
  data: {
    messageID: "msg_1",
    sessionID: "ses_1",
    agent: "orchestrator",
    model: "two/small",
    read: 9,
    text: "",
    calls: [],
    finish: "end",
    failure: null,
    usage: { inputTokens: 1, outputTokens: 2, cacheReadTokens: 0, cacheWriteTokens: 0, costUSD: 0 },
    durationMs: 1,
  },
};
const message = (disposition: "steered" | "queued" | "restarted"): DomainEvent => ({
  type: "message.received",
  data: { messageID: "msg_2", sessionID: "ses_1", source: "api", text: "now", attachments: [], disposition },
});
const end: DomainEvent = { type: "task.settled", data: { lifecycleStatus: "completed", summary: "" } };

describe("a Task that is put off", () => {
  const waits = fold([
    [0, task],
    [1, run],
    [11, deferred],
  ]);

  test("is queued with its time, and does nothing", () => {
    expect(next(waits, rules)).toEqual({ kind: "wait" });
    expect(phaseOf(waits)).toBe("queued");
    expect(summarise(waits).queue).toEqual({ position: 1, notBefore: at(300), reason: "slow down" });
  });

  test("goes on when it is taken up, and the wait is no time of the attempt's", () => {
    const on = fold([
      [0, task],
      [1, run],
      [11, deferred],
      [300, run],
    ]);
    expect(next(on, rules)).toEqual({ kind: "turn", last: false });
    expect(on).toMatchObject({ deferred: null, quotaSince: at(11), time: { ms: 600_000, since: at(300) } });
    expect(summarise(on).queue).toBeNull();
  });

  test("a message wakes it, one for later does not", () => {
    const facts: [number, DomainEvent][] = [
      [0, task],
      [1, run],
      [11, deferred],
    ];
    expect(next(fold([...facts, [21, message("steered")]]), rules)).toEqual({ kind: "turn", last: false });
    expect(fold([...facts, [21, message("steered")]]).time).toEqual({ ms: 600_000, since: null });
    expect(next(fold([...facts, [21, message("queued")]]), rules)).toEqual({ kind: "wait" });
  });

  test("a cancel stops it at once, whatever mode", () => {
    expect(cancel(waits, { surface: "api", reason: "", mode: "wrap_up" }, at(20))).toMatchObject({
      stops: true,
      events: [{ data: { mode: "stop" } }],
    });
  });

  test("since when it waits is counted from the first time, until a reply came", () => {
    const again = fold([
      [0, task],
      [1, run],
      [11, deferred],
      [300, run],
      [301, deferred],
    ]);
    expect(again.quotaSince).toBe(at(11));
    expect(
      fold([
        [0, task],
        [1, run],
        [11, deferred],
        [300, run],
        [301, reply],
      ]).quotaSince,
    ).toBeNull();
  });
});

describe("a Task whose model is replaced", () => {
  test("remembers what refused until there is a reply, and begins its next attempt with its own model", () => {
    const facts: [number, DomainEvent][] = [
      [0, task],
      [1, run],
      [2, switched("one/large", "two/small")],
    ];
    expect(fold(facts)).toMatchObject({ model: "two/small", wanted: "one/large", tried: ["one/large"] });
    expect(fold(facts).sessions.map(({ model }) => model)).toEqual(["two/small"]);
    expect(fold([...facts, [3, switched("two/small", "three/x")]]).tried).toEqual(["one/large", "two/small"]);
    expect(fold([...facts, [3, deferred]]).tried).toEqual([]);
    const replied: typeof facts = [...facts, [3, reply]];
    expect(fold(replied)).toMatchObject({ model: "two/small", tried: [] });
    const restarted = fold([...replied, [4, end], [5, message("restarted")]]);
    expect(restarted).toMatchObject({ model: "one/large", attempt: 2, sessions: [{ model: "one/large" }] });
  });
});
