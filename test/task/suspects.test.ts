import { expect, test } from "vitest";
import type { DomainEvent } from "../../src/domain/event.ts";
import type { TaskState } from "../../src/domain/state/task.ts";
import { isCrashLoop, isSuspect } from "../../src/domain/task/crash.ts";
import { evolve } from "../../src/domain/task/evolve.ts";
import { findSuspects } from "../../src/task/worker/suspects.ts";
import { created } from "../harness/events.ts";

/** Whom a service looks at twice that has died: in facts, and in the order in which runs may begin. */

const at = new Date(Date.UTC(2026, 10, 21, 8)).toISOString();
/** A run that names no process is in one of its own. */
const inOwnProcess = (event: DomainEvent, index: number): DomainEvent =>
  event.type === "run.started" && event.data.worker === ""
    ? { ...event, data: { ...event.data, worker: `w${index}` } }
    : event;
const fold = (facts: readonly DomainEvent[]): TaskState => {
  let state: TaskState | undefined;
  for (const [index, event] of facts.entries())
    state = evolve(state, {
      ...inOwnProcess(event, index),
      stream: "task_1",
      position: index + 1,
      version: index + 1,
      at,
    });
  if (state === undefined) throw new Error("no events");
  return state;
};
const task = created({ sessionID: "ses_1" });
const run: DomainEvent = {
  type: "run.started",
  data: { worker: "", epoch: 1, sandbox: { tier: 3, name: "process-group", network: true }, killed: [] },
};
const alone: DomainEvent = { ...run, data: { ...run.data, alone: true } };
const call: DomainEvent = {
  type: "tool.started",
  data: { callID: "call_1", sessionID: "ses_1", tool: "shell", input: {}, effect: "unknown" },
};
const result: DomainEvent = {
  type: "tool.finished",
  data: { callID: "call_1", sessionID: "ses_1", tool: "shell", outcome: "ok", output: "", exitCode: 0, durationMs: 1 },
};

test("a suspect was in the same step at two deaths; who died alone in it is the cause", () => {
  const said = (facts: DomainEvent[]) => {
    const state = fold([task, run, call, ...facts]);
    return { suspect: isSuspect(state), cause: isCrashLoop(state, "a service") };
  };
  expect(said([])).toEqual({ suspect: false, cause: false });
  expect(said([run])).toEqual({ suspect: true, cause: false });
  // However often it died beside others, that says nothing.
  expect(said([run, run, run, run])).toEqual({ suspect: true, cause: false });
  expect(said([run, alone])).toEqual({ suspect: true, cause: true });
  // Cleared: it has advanced, or was stopped in order.
  expect(said([run, alone, result])).toEqual({ suspect: false, cause: false });
  expect(said([run, alone, result, { ...call, data: { ...call.data, callID: "call_2" } }])).toEqual({
    suspect: false,
    cause: false,
  });
  expect(said([run, { type: "run.stopped", data: { reason: "" } }])).toEqual({ suspect: false, cause: false });
});

test("a run that ends with an error, as for want of a database, is no death of its process", () => {
  const by = (worker: string): DomainEvent => ({ ...alone, data: { ...alone.data, worker } });
  const seen = (worker: string, facts: DomainEvent[]) => {
    const state = fold([task, run, call, run, ...facts]);
    return { crashes: state.crashes, cause: isCrashLoop(state, worker) };
  };
  expect(seen("one", [by("one")])).toEqual({ crashes: 2, cause: false });
  expect(seen("one", [by("one"), by("one")])).toEqual({ crashes: 2, cause: false });
  // Control: another process finds it so.
  expect(seen("two", [by("one")])).toEqual({ crashes: 2, cause: true });
  expect(seen("two", [by("one"), by("two")])).toEqual({ crashes: 3, cause: false });
});

test("suspects run one at a time, and all others after them, without a place meanwhile", async () => {
  const state = (facts: DomainEvent[], more: Partial<TaskState> = {}) => ({ ...fold([task, ...facts]), ...more });
  const suspect = state([run, call, run]);
  const states: Record<string, TaskState> = {
    task_1: suspect,
    task_2: suspect,
    task_3: state([run, call]),
    task_4: state([run, call], { cancel: { surface: "api", reason: "", mode: "stop" } }),
  };
  const aside = new Set<string>();
  const suspects = await findSuspects({
    store: {
      due: (now) =>
        Promise.resolve(Object.keys(states).map((stream) => ({ stream, due: { at: now, rank: 1 }, seq: 1 }))),
      state: (stream) => Promise.resolve(states[stream]),
    },
    engine: {
      standAside(stream) {
        aside.add(stream);
        return { [Symbol.dispose]: () => void aside.delete(stream) };
      },
    },
    now: () => new Date(at),
  });
  const never = new AbortController().signal;
  const begun: string[] = [];
  const begin = (stream: string, signal = never) =>
    suspects.pass(stream, signal).then((pass) => {
      begun.push(stream);
      return pass;
    });
  const settle = () => new Promise((resolve) => setImmediate(resolve));

  const third = begin("task_3");
  const first = await begin("task_1");
  const second = begin("task_2");
  await begin("task_4");
  const left = new AbortController();
  const leaving = begin("task_5", left.signal);
  left.abort(new Error("interrupted"));
  await expect(leaving).rejects.toThrow("interrupted");
  await settle();
  expect({ begun, aside: [...aside].toSorted() }).toEqual({ begun: ["task_1", "task_4"], aside: ["task_2", "task_3"] });
  expect(["task_1", "task_2", "task_3"].map((stream) => suspects.isAlone(stream))).toEqual([true, false, false]);

  // It advances, and goes on beside the next.
  suspects.clear("task_1");
  const pass = await second;
  await settle();
  expect(begun).toEqual(["task_1", "task_4", "task_2"]);
  first[Symbol.dispose]();
  await settle();
  expect(begun).toHaveLength(3);
  pass[Symbol.dispose]();
  await third;
  expect([begun, aside.size, suspects.isAlone("task_2")]).toEqual([["task_1", "task_4", "task_2", "task_3"], 0, false]);
});
