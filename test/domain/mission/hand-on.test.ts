import { expect, test } from "vitest";
import { agentStatus, isAwake, nextStep } from "../../../src/domain/mission/next.ts";
import { standingOf } from "../../../src/domain/mission/standing.ts";
import type { DomainEvent } from "../../../src/domain/event.ts";
import { dispatched, missionLog, phase, replied, taskAsked, taskEnded, woken } from "../../harness/mission-log.ts";

/** A reply that only gave Tasks work ends the turn; every other one is followed by a request. */

const sessionID = "ses_1";
const begun = (callID: string, tool: string): DomainEvent => ({
  type: "tool.started",
  data: { callID, sessionID, tool, input: {}, effect: "log" },
});
const over = (callID: string, tool: string, outcome: "ok" | "error" | "interrupted" = "ok"): DomainEvent => ({
  type: "tool.finished",
  data: { callID, sessionID, tool, outcome, output: "", exitCode: null, durationMs: 1 },
});
/** Woken, with a plan of these phases, and a reply that makes these calls. */
const midway = (phases: readonly string[], ...calls: (readonly [callID: string, tool: string])[]) => {
  const log = missionLog();
  log.add(...woken(), { type: "plan.written", data: { sessionID, callID: "p", phases: phases.map(phase) } });
  log.add(replied(log.state(), { finish: "calls", calls: calls.map(([callID]) => callID) }));
  log.add(...calls.map(([callID, tool]) => begun(callID, tool)));
  return log;
};
const kind = (log: ReturnType<typeof missionLog>) => nextStep(log.state()).kind;

test("once every call gave a Task work there is nothing to ask its agent, until something happens", () => {
  const log = midway(["a", "b"], ["one", "dispatch"], ["two", "dispatch"]);
  log.add(dispatched("one"), over("one", "dispatch"));
  // A death here leaves a call under way.
  expect(kind(log)).toBe("recover");
  const state = log.add(dispatched("two", { phase: "b" }), over("two", "dispatch"));
  expect([kind(log), isAwake(state), agentStatus(state)]).toEqual(["sleep", false, "inactive"]);
  expect(standingOf(state)).toMatchObject({ state: "waiting", reason: 'Waits for "Task one", "Task two"' });
  const [one] = state.tasks;
  expect([log.add(taskEnded(one!, "completed")), kind(log)].at(-1)).toBe("turn");
  // A message to the Task makes it run again, and is the next thing to wait for.
  log.add(replied(log.state(), { finish: "calls", calls: ["three"] }), begun("three", "task_message"));
  log.add({ type: "task.reopened", data: { sessionID, callID: "three", taskID: "task_one" } });
  log.add(over("three", "task_message"));
  expect([kind(log), standingOf(log.state()).state]).toEqual(["sleep", "waiting"]);
  log.add(...woken());
  expect(kind(log)).toBe("turn");
});

test.each<[name: string, (log: ReturnType<typeof missionLog>) => void, step: string]>([
  ["control: it did", (log) => log.add(over("one", "dispatch"), over("two", "task_message")), "sleep"],
  ["a call was refused", (log) => log.add(over("one", "dispatch"), over("two", "task_message", "error")), "turn"],
  [
    "the refused one came first",
    (log) => log.add(over("two", "task_message", "error"), over("one", "dispatch")),
    "turn",
  ],
  [
    "a call was interrupted",
    (log) => log.add(over("one", "dispatch", "interrupted"), over("two", "task_message")),
    "turn",
  ],
  ["a call read something", (log) => log.add(over("one", "dispatch"), over("two", "task_evidence")), "turn"],
  [
    "a Task waits for its answer",
    (log) => {
      log.add(over("one", "dispatch"), over("two", "task_message"));
      log.add(
        taskAsked(log.state().tasks[0]!),
        replied(log.state(), { read: 100, finish: "calls", calls: ["more"] }),
        begun("more", "task_message"),
        over("more", "task_message"),
      );
    },
    "turn",
  ],
  [
    "no Task runs that would resume it",
    (log) => {
      const [task] = log.add(over("one", "dispatch"), over("two", "task_message")).tasks;
      log.add(taskEnded(task!, "failed"), replied(log.state(), { read: 100, finish: "calls", calls: ["more"] }));
      log.add(begun("more", "task_message"), over("more", "task_message"));
    },
    "turn",
  ],
])("%s", (_name, happens, step) => {
  const log = midway(["a"], ["one", "dispatch"], ["two", "task_message"]);
  log.add(dispatched("one"));
  happens(log);
  expect(kind(log)).toBe(step);
});

test.each<[string, tools: string[], step: string]>([
  ["a note and a changed phase beside it say nothing new", ["remember", "phase", "dispatch"], "sleep"],
  ["nor do they behind it", ["dispatch", "remember", "task_cancel"], "sleep"],
  ["the whole plan names what is wrong with it", ["plan", "dispatch"], "turn"],
  ["a look does say something", ["remember", "dispatch", "task_status"], "turn"],
  ["control: they alone give nobody work", ["remember", "phase"], "turn"],
])("%s", (_name, tools, step) => {
  const log = midway(["a"], ["one", "dispatch"]);
  log.add(dispatched("one"), over("one", "dispatch"));
  log.add(replied(log.state(), { read: 100, finish: "calls", calls: tools.map((_tool, at) => `call${at}`) }));
  log.add(...tools.map((tool, at) => begun(`call${at}`, tool)));
  expect(kind(log)).toBe("recover");
  log.add(...tools.map((tool, at) => over(`call${at}`, tool)));
  expect(kind(log)).toBe(step);
  expect(standingOf(log.state()).state).toBe(step === "sleep" ? "waiting" : "working");
});

test("a phase that could begin is asked for once more; one that comes after others is not", () => {
  const left = midway(["a", "b"], ["one", "dispatch"]);
  left.add(dispatched("one"), over("one", "dispatch"));
  expect(kind(left)).toBe("turn");
  const waits = missionLog();
  const phases = [phase("a"), { ...phase("b"), after: ["a"] }];
  waits.add(...woken(), { type: "plan.written", data: { sessionID, callID: "p", phases } });
  waits.add(replied(waits.state(), { finish: "calls", calls: ["one"] }), begun("one", "dispatch"));
  waits.add(dispatched("one"), over("one", "dispatch"));
  expect(kind(waits)).toBe("sleep");
});
