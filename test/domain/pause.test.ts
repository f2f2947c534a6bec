import { expect, test } from "vitest";
import type { DomainEvent } from "../../src/domain/event.ts";
import type { TaskState } from "../../src/domain/state/task.ts";
import { cancel } from "../../src/domain/task/cancel.ts";
import { evolve } from "../../src/domain/task/evolve.ts";
import { phaseOf, summarise } from "../../src/domain/view/summary.ts";
import { created } from "../harness/events.ts";

/** A run that waits for space, in facts: some are written when it begins to, one when it goes on. */

const at = (minute: number) => new Date(Date.UTC(2026, 10, 21, 8, minute)).toISOString();

const fold = (facts: readonly [minute: number, DomainEvent][]): TaskState => {
  let state: TaskState | undefined;
  for (const [index, [minute, event]] of facts.entries()) {
    const version = index + 1;
    state = evolve(state, { ...event, stream: "task_1", position: version, version, at: at(minute) });
  }
  if (state === undefined) throw new Error("no events");
  return state;
};

const task = created({ sessionID: "ses_1" });
const run: DomainEvent = {
  type: "run.started",
  data: { worker: "w", epoch: 1, sandbox: { tier: 3, name: "process-group", network: true }, killed: [] },
};
/** In the next process. */
const after = { ...run, data: { ...run.data, worker: "next" } } as DomainEvent;
const paused: DomainEvent = { type: "run.paused", data: { code: "disk_low", reason: "waits for space" } };
const resumed = (since: number): DomainEvent => ({
  type: "run.resumed",
  data: { code: "disk_low", since: at(since) },
});
const call: DomainEvent = {
  type: "tool.started",
  data: { callID: "call_1", sessionID: "ses_1", tool: "shell", input: {}, effect: "unknown" },
};
const result: DomainEvent = {
  type: "tool.finished",
  data: {
    callID: "call_1",
    sessionID: "ses_1",
    tool: "shell",
    outcome: "ok",
    output: "",
    exitCode: 0,
    durationMs: 1,
  },
};
const minutes = (count: number) => count * 60_000;

test("it shows as queued, with the reason, until it goes on, is taken up anew, or ends", () => {
  const facts: [number, DomainEvent][] = [
    [0, task],
    [1, run],
    [2, call],
    [5, paused],
  ];
  const waits = fold(facts);
  expect(phaseOf(waits)).toBe("queued");
  expect(summarise(waits).queue).toEqual({ position: 1, notBefore: null, reason: "waits for space" });
  const ends: DomainEvent = { type: "task.settled", data: { lifecycleStatus: "cancelled", summary: "" } };
  for (const [event, phase] of [
    [resumed(5), "preparing"],
    [run, "preparing"],
    [ends, "settled"],
  ] as const) {
    const after = fold([...facts, [60, event]]);
    expect([after.pause, summarise(after).queue, phaseOf(after)]).toEqual([null, null, phase]);
  }
  // A result that comes meanwhile is written, and changes nothing of that.
  expect(phaseOf(fold([...facts, [6, result]]))).toBe("queued");
});

test("it is no time of the attempt, whether its beginning is on record or not", () => {
  const before: [number, DomainEvent][] = [
    [0, task],
    [1, run],
    [2, call],
  ];
  expect(fold([...before, [11, paused]]).time).toEqual({ ms: minutes(10), since: null });
  expect(fold([...before, [11, paused], [20, result]]).time).toEqual({ ms: minutes(10), since: null });
  const recorded = fold([...before, [11, paused], [20, result], [60, resumed(11)]]);
  expect(recorded.time).toEqual({ ms: minutes(10), since: at(60) });
  expect(fold([...before, [60, resumed(11)]]).time).toEqual(recorded.time);
  // The control: without the fact the hour would be the Task's.
  expect(fold([...before, [60, result]]).time).toEqual({ ms: 0, since: at(1) });
  // The clock was started again after the pause had begun.
  expect(
    fold([
      [0, task],
      [20, run],
      [60, resumed(11)],
    ]).time,
  ).toEqual({ ms: 0, since: at(60) });
});

test("a run that dies within it has not died of its calls", () => {
  const dies = (facts: [number, DomainEvent][]) => fold([[0, task], [1, run], [2, call], ...facts, [9, after]]).crashes;
  expect(dies([[3, paused]])).toBe(0);
  // The control, and what dies after it has gone on.
  expect(dies([])).toBe(1);
  expect(
    dies([
      [3, paused],
      [4, resumed(3)],
    ]),
  ).toBe(1);
});

test("a run that died has worked until its own last fact, whatever others wrote before the next one; control: to its own it has", () => {
  const message: DomainEvent = {
    type: "message.received",
    data: {
      messageID: "msg_1",
      sessionID: "ses_1",
      source: "user",
      text: "Go on.",
      attachments: [],
      disposition: "steered",
    },
  };
  const title: DomainEvent = { type: "task.updated", data: { title: "Another" } };
  const worked = (facts: [number, DomainEvent][]) => fold([[0, task], [1, run], [2, call], ...facts, [3001, run]]).time;
  expect(worked([])).toEqual({ ms: minutes(1), since: at(3001) });
  expect(
    worked([
      [2999, message],
      [3000, title],
    ]),
  ).toEqual({ ms: minutes(1), since: at(3001) });
  expect(
    worked([
      [5, title],
      [7, result],
      [3000, message],
    ]),
  ).toEqual({ ms: minutes(6), since: at(3001) });
});

test("a cancel stops it at once, whatever mode", () => {
  const reply: DomainEvent = {
    type: "reply.finished",
    data: {
      messageID: "msg_1",
      sessionID: "ses_1",
      agent: "orchestrator",
      model: "one/large",
      read: 9,
      text: "",
      calls: [],
      finish: "calls",
      failure: null,
      usage: { inputTokens: 1, outputTokens: 2, cacheReadTokens: 0, cacheWriteTokens: 0, costUSD: 0 },
      durationMs: 1,
    },
  };
  const facts: [number, DomainEvent][] = [
    [0, task],
    [1, run],
    [2, reply],
  ];
  const mode = (state: TaskState) => cancel(state, { surface: "api", reason: "", mode: "wrap_up" }, at(20));
  expect(mode(fold([...facts, [3, paused]]))).toMatchObject({ stops: true, events: [{ data: { mode: "stop" } }] });
  // The control.
  expect(mode(fold(facts))).toMatchObject({ stops: false, events: [{ data: { mode: "wrap_up" } }] });
});
