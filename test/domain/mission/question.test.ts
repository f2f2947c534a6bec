import { expect, test } from "vitest";
import { isAwake, nextStep } from "../../../src/domain/mission/next.ts";
import { dispatched, missionLog, phase, replied, taskAsked, taskEnded, woken } from "../../harness/mission-log.ts";

/** What its Tasks ask is answered by its agent, or passed on: it is never left lying. */

const sessionID = "ses_1";
const asked = taskAsked({ taskID: "task_one", phase: "a", title: "Task one" });
const begun = (budget?: Parameters<typeof woken>[0]) => {
  const log = missionLog();
  log.add(...woken(budget), { type: "plan.written", data: { sessionID, callID: "c", phases: [phase("a")] } });
  log.add(replied(log.state(), { text: "Runs." }), dispatched("one"));
  return log;
};

test("its agent hears it, also when it had ended; what it says nothing of is passed on, once", () => {
  const log = begun();
  expect(nextStep(log.state()).kind).toBe("sleep");
  log.add({
    type: "mission.finished",
    data: { sessionID, callID: "f", outcome: "waiting", summary: "Later.", wakeAt: null },
  });
  expect(nextStep(log.add(asked)).kind).toBe("turn");
  const silent = log.add(replied(log.state(), { text: "Hm." }));
  expect([nextStep(silent).kind, isAwake(silent)]).toEqual(["pass", true]);
  const over = log.add({
    type: "task.answered",
    data: { sessionID, taskID: "task_one", askID: "ask_1", how: "passed" },
  });
  expect([nextStep(over).kind, isAwake(over)]).toEqual(["sleep", false]);
});

test("one whose agent cannot speak passes it on at once; one that was stopped does nothing", () => {
  const spent = begun({ maxTokens: 5 });
  expect(nextStep(spent.add(asked)).kind).toBe("pass");
  const failed = begun();
  failed.add(asked);
  const failure = { code: "provider_unavailable", message: "No answer.", retryable: true, remedy: "Wake it." };
  expect(nextStep(failed.add(replied(failed.state(), { finish: "failed", failure }))).kind).toBe("pass");
  const waits = begun();
  waits.add(asked, {
    type: "task.deferred",
    data: { sessionID, until: "2026-11-21T10:00:00.000Z", code: "provider_quota", reason: "Used up." },
  });
  expect(nextStep(waits.state()).kind).toBe("pass");
  const stopped = begun();
  stopped.add(asked, { type: "mission.aborted", data: { sessionID, surface: "api", reason: "", cascade: false } });
  expect([nextStep(stopped.state()).kind, isAwake(stopped.state())]).toEqual(["sleep", false]);
});

test("what a Task asked is over when it ends", () => {
  const log = begun();
  const state = log.add(asked);
  expect(state.questions).toEqual([{ taskID: "task_one", askID: "ask_1" }]);
  expect(log.add(taskEnded(state.tasks[0]!, "completed")).questions).toEqual([]);
});

test("what a person wrote to a Task wakes nobody, and is among their words", () => {
  const log = begun();
  const before = log.add(replied(log.state(), { text: "Hm." }));
  const said = { taskID: "task_one", messageID: "msg_1", phase: "a", title: "Task one", text: "Tabs." };
  const state = log.add({ type: "task.messaged", data: { sessionID, ...said, disposition: "steered" } });
  expect([nextStep(state).kind, isAwake(state), state.messages]).toEqual(["sleep", false, before.messages + 1]);
  expect(state.words).toBe(state.version);
});

test("what a person answered to a Task wakes nobody, and is among their words", () => {
  const log = begun();
  const before = log.add(asked, replied(log.state(), { text: "Hm." }));
  expect(nextStep(before).kind).toBe("turn");
  log.add(replied(log.state(), { text: "Hm." }));
  const said = { phase: "a", title: "Task one", question: "Which?", answer: "Red." };
  const state = log.add({
    type: "task.answered",
    data: { sessionID, taskID: "task_one", askID: "ask_1", how: "closed", said },
  });
  expect([nextStep(state).kind, isAwake(state), state.questions]).toEqual(["sleep", false, []]);
  expect(state.words).toBe(state.version);
});
