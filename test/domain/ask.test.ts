import { expect, test } from "vitest";
import { answer, askIDOf, asksClosedBy, pendingOf, remind, timeouts } from "../../src/domain/session/ask.ts";
import { stopReason } from "../../src/domain/session/budget.ts";
import { cancel } from "../../src/domain/task/cancel.ts";
import type { DomainEvent } from "../../src/domain/event.ts";
import type { EventData } from "../../src/protocol/event/event.ts";
import { next } from "../../src/domain/task/next/next.ts";
import type { StepPolicy } from "../../src/domain/task/next/step.ts";
import { summarise } from "../../src/domain/view/summary.ts";
import { evolve } from "../../src/domain/task/evolve.ts";
import type { TaskState } from "../../src/domain/state/task.ts";
import { defaultLimits } from "../../src/protocol/limit.ts";
import { created } from "../harness/events.ts";

/** Asks as facts: given these, what happens next, and what an answer, a message, a cancel come to. */

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
const start = Date.parse("2026-11-21T08:00:00.000Z");
const time = (seconds: number) => new Date(start + seconds * 1000);

/** One event a second, so that times can be told. */
const fold = (events: readonly DomainEvent[]): TaskState => {
  let state: TaskState | undefined;
  events.forEach((event, index) => {
    const version = index + 1;
    state = evolve(state, { ...event, stream: "task_1", position: version, version, at: time(version).toISOString() });
  });
  if (state === undefined) throw new Error("no events");
  return state;
};

const run: DomainEvent = {
  type: "run.started",
  data: { worker: "w", epoch: 1, sandbox: { tier: 3, name: "process-group", network: true }, killed: [] },
};
/** In the next process. */
const after = { ...run, data: { ...run.data, worker: "next" } } as DomainEvent;
const reply = (calls: string[]): DomainEvent => ({
  type: "reply.finished",
  data: {
    messageID: "msg_2",
    sessionID: "ses_1",
    agent: "orchestrator",
    model: "mock/large",
    read: 2,
    text: "",
    calls,
    finish: "calls",
    failure: null,
    usage: { inputTokens: 1, outputTokens: 2, cacheReadTokens: 0, cacheWriteTokens: 0, costUSD: 0 },
    durationMs: 1,
  },
});
const started = (callID: string): DomainEvent => ({
  type: "tool.started",
  data: { callID, sessionID: "ses_1", tool: "shell", input: {}, effect: "unknown" },
});
const finished = (callID: string): DomainEvent => ({
  type: "tool.finished",
  data: { callID, sessionID: "ses_1", tool: "shell", outcome: "ok", output: "", exitCode: 0, durationMs: 1 },
});
const opened = (
  callID: string,
  kind: "permission" | "question",
  until: number,
  fallback: string | null,
): DomainEvent => ({
  type: "ask.opened",
  data: {
    askID: askIDOf(callID),
    sessionID: "ses_1",
    callID,
    kind,
    prompt: "?",
    options: [],
    default: fallback,
    expiresAt: time(until).toISOString(),
  },
});
const permitted = (callID: string): DomainEvent => ({
  type: "permission.decided",
  data: {
    callID,
    sessionID: "ses_1",
    tool: "shell",
    subject: "make deploy",
    decision: "allow",
    rule: "shell(make deploy)",
    origin: "operator",
    by: "caller",
  },
});
const says = (askID: string, more: object = { answer: "x" }): DomainEvent => ({
  type: "ask.answered",
  data: { askID, by: "caller", source: "api", ...more },
});

const begun = [created(), run, reply(["call_a", "call_b"]), started("call_a"), started("call_b")];
const question = opened("call_a", "question", 100, "red");
const permission = opened("call_b", "permission", 50, "deny");
const both = [...begun, question, permission];

test("a Task waits once every open call does, until the first is over", () => {
  expect(next(fold([...begun, question]), rules)).toEqual({ kind: "recover" });
  const waiting = { kind: "ask", until: time(50).toISOString() };
  expect(next(fold(both), rules)).toEqual(waiting);
  expect(summarise(fold(both))).toMatchObject({ phase: "waiting", pendingCount: 2 });
  expect(summarise(fold(both)).availableActions).toContain("answer");
  expect(next(fold([...begun, question, finished("call_b")]), rules)).toEqual({
    kind: "ask",
    until: time(100).toISOString(),
  });
  expect(next(fold([...both, says("ask_b", { decision: "allow" })]), rules)).toEqual({ kind: "recover" });
  expect(summarise(fold([...both, says("ask_b")]))).toMatchObject({ phase: "working", pendingCount: 1 });
});

test("waiting is no time of the attempt, and no death of a run", () => {
  const left = fold(both);
  // Taken up at 2, left at 7.
  expect(left.time).toEqual({ ms: 5000, since: null });
  const again = fold([...both, says("ask_b", { decision: "allow" }), after]);
  expect([again.time, again.crashes]).toEqual([{ ms: 5000, since: time(9).toISOString() }, 0]);
  // What was permitted and has begun is work that can die.
  const answered = [...both, says("ask_a"), says("ask_b", { decision: "allow" }), run];
  expect(fold([...answered, finished("call_a"), permitted("call_b"), after]).crashes).toBe(1);
  expect(fold([...answered, finished("call_a"), after]).crashes).toBe(0);
});

test("who stays while it waits works on from the permission, without a new run", () => {
  const alone = [created(), run, reply(["call_b"]), started("call_b"), permission];
  const waits = fold([...alone, says("ask_b", { decision: "allow" })]);
  expect(waits.time).toEqual({ ms: 3000, since: null });
  // However long nobody answers, maxMinutes is not reached by it.
  const late = new Date(time(100).getTime() + 86_400_000);
  expect(stopReason({ ...waits, budget: { maxMinutes: 1 } }, defaultLimits, late)).toBeUndefined();
  const works = fold([...alone, says("ask_b", { decision: "allow" }), permitted("call_b")]);
  expect(works.time).toEqual({ ms: 3000, since: time(7).toISOString() });
  expect(stopReason({ ...works, budget: { maxMinutes: 1 } }, defaultLimits, late)?.code).toBe("budget_reached");
});

test("one answer each, of the right kind, in time", () => {
  const state = fold(both);
  const given = (askID: string, body: object, at = 10) => answer(state, askID, { source: "me", ...body }, time(at));
  expect(given("ask_a", { answer: "blue" })).toEqual({
    kind: "events",
    events: [{ type: "ask.answered", data: { askID: "ask_a", answer: "blue", by: "caller", source: "me" } }],
  });
  expect(given("ask_a", { decision: "allow" })).toEqual({ kind: "mismatch", expected: "answer" });
  expect(given("ask_b", { answer: "yes" })).toEqual({ kind: "mismatch", expected: "decision" });
  expect(given("ask_b", { decision: "allow" }, 49)).toMatchObject({ kind: "events" });
  expect(given("ask_b", { decision: "allow" }, 50)).toEqual({ kind: "closed" });
  expect(given("ask_x", { answer: "blue" })).toEqual({ kind: "closed" });
  expect(answer(fold([...both, says("ask_a")]), "ask_a", { answer: "late", source: "me" }, time(10))).toEqual({
    kind: "closed",
  });
});

test("the defaults of what is over, and only of that", () => {
  const state = fold(both);
  expect(timeouts(state, time(49))).toEqual([]);
  const deny = { type: "ask.answered", data: { askID: "ask_b", decision: "deny", by: "timeout", source: "service" } };
  expect(timeouts(state, time(50))).toEqual([deny]);
  const red = { type: "ask.answered", data: { askID: "ask_a", answer: "red", by: "timeout", source: "service" } };
  expect(timeouts(state, time(100))).toEqual([red, deny]);
  const undecided = fold([...begun, opened("call_a", "question", 1, null)]);
  expect(timeouts(undecided, time(2)).map(({ data }) => data)).toEqual([
    { askID: "ask_a", by: "timeout", source: "service" },
  ]);
});

test("somebody is reminded after an hour, after four, and then once a day; not of what is over before", () => {
  const forever = {
    ...question,
    data: { ...(question.data as EventData["ask.opened"]), expiresAt: null },
  } as DomainEvent;
  const hours = (count: number) => new Date(time(6).getTime() + count * 3_600_000);
  let events = [...begun, forever];
  const told = [];
  for (let hour = 0; hour <= 100; hour += 1) {
    const due = remind(fold(events), hours(hour));
    if (due.length > 0) told.push(hour);
    events = [...events, ...due];
  }
  expect(told).toEqual([1, 4, 24, 48, 72, 96]);
  expect(remind(fold(both), hours(100))).toEqual([]);
  // It is due at the reminder, and waits on.
  const waiting = fold([created(), run, reply(["call_a"]), started("call_a"), forever]);
  expect(next(waiting, rules)).toEqual({ kind: "ask", until: new Date(time(5).getTime() + 3_600_000).toISOString() });
});

test("what a message and a cancel close", () => {
  const state = fold(both);
  const closed = (events: readonly DomainEvent[]) =>
    events.flatMap((event) => (event.type === "ask.answered" ? [[event.data.askID, event.data.by]] : []));
  expect(closed(asksClosedBy(state, "steered"))).toEqual([["ask_a", "ended"]]);
  expect(closed(asksClosedBy(state, "interrupted"))).toEqual([
    ["ask_a", "ended"],
    ["ask_b", "ended"],
  ]);
  expect(closed(asksClosedBy(state, "queued"))).toEqual([]);
  for (const mode of ["stop", "wrap_up"] as const) {
    const decided = cancel(state, { surface: "api", reason: "", mode }, time(20).toISOString());
    expect(decided.kind === "events" && closed(decided.events)).toEqual([
      ["ask_a", "ended"],
      ["ask_b", "ended"],
    ]);
  }
  const end: DomainEvent = { type: "task.settled", data: { lifecycleStatus: "cancelled", summary: "", error: "x" } };
  expect(pendingOf(fold([...both, end]))).toEqual([]);
});
