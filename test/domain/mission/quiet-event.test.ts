import { expect, test } from "vitest";
import { nextStep } from "../../../src/domain/mission/next.ts";
import type { DomainEvent } from "../../../src/domain/event.ts";
import type { EventData } from "../../../src/protocol/event/event.ts";
import { dispatched, missionLog, phase, replied, taskEnded, woken } from "../../harness/mission-log.ts";

/** What gives a Mission's agent nothing to do does not wake it. */

const sessionID = "ses_1";
const dropped = (of: string): DomainEvent => ({ type: "phase.dropped", data: { sessionID, callID: "d", phase: of } });
type Outcome = EventData["task.ended"]["outcome"];

/** Phases a and b run, and its agent sleeps. */
const running = (approve?: "plan"[]) => {
  const log = missionLog();
  log.add(...woken(undefined, approve));
  log.add({ type: "plan.written", data: { sessionID, callID: "p", phases: [phase("a"), phase("b")] } });
  log.add(dispatched("one"), dispatched("two", { phase: "b" }));
  return log;
};
type Log = ReturnType<typeof missionLog>;
const rests = (log: Log) => log.add(replied(log.state(), { text: "Runs." }));
const ends = (log: Log, at: number, outcome: Outcome) => {
  const task = log.state().tasks[at];
  if (task === undefined) throw new Error("no Task");
  return nextStep(log.add(taskEnded(task, outcome))).kind;
};

test.each<[name: string, before: (log: Log) => void, outcome: Outcome, step: string]>([
  ["of a phase that was dropped, while another one runs", (log) => log.add(dropped("a")), "cancelled", "sleep"],
  ["control: its phase is still in the plan", () => {}, "cancelled", "turn"],
  ["control: it failed before that", (log) => log.add(dropped("a")), "failed", "turn"],
  ["control: it landed before that", (log) => log.add(dropped("a")), "completed", "turn"],
  [
    "control: nothing else would wake it",
    (log) => void (log.add(dropped("a")), ends(log, 1, "completed"), rests(log)),
    "cancelled",
    "turn",
  ],
])("a Task that its agent has withdrawn ends: %s", (_name, before, outcome, step) => {
  const log = running();
  before(log);
  rests(log);
  expect(ends(log, 0, outcome)).toBe(step);
});

test("after it has said that it is done, the end of what it had withdrawn does not take that back", () => {
  const log = running();
  ends(log, 1, "completed");
  log.add(dropped("a"));
  log.add({
    type: "mission.finished",
    data: { sessionID, callID: "f", outcome: "done", summary: "All.", wakeAt: null },
  });
  rests(log);
  expect(ends(log, 0, "cancelled")).toBe("sleep");
  expect(log.state().finished).toMatchObject({ outcome: "done" });
});

const approval: DomainEvent = {
  type: "ask.opened",
  data: {
    askID: "ask_1",
    sessionID,
    callID: null,
    kind: "approval",
    of: "plan",
    would: { subject: "s", commit: null, tree: null, branch: null },
    prompt: "Carry it out?",
    options: ["allow", "deny"],
    default: null,
    expiresAt: null,
  },
};
const squad = { id: "crew", version: "1.0.0", digest: "0".repeat(64), scope: "project" as const };
const reconciled: DomainEvent = {
  type: "squad.reconciled",
  data: { sessionID, taskID: "task_one", phase: "a", squad },
};

test("while the plan waits for a person, what was completed waits with it; what failed does not", () => {
  const waits = running(["plan"]);
  rests(waits);
  expect(nextStep(waits.add(approval)).kind).toBe("ask");
  expect(ends(waits, 0, "completed")).toBe("ask");
  expect(nextStep(waits.add(reconciled)).kind).toBe("ask");
  expect(ends(waits, 1, "failed")).toBe("turn");
  // Controls: nobody is asked.
  const free = running();
  rests(free);
  expect(ends(free, 0, "completed")).toBe("turn");
  rests(free);
  expect(nextStep(free.add(reconciled)).kind).toBe("turn");
});

test("a plan that was refused without a word is asked about again once it was changed, and not before", () => {
  const log = running(["plan"]);
  rests(log);
  log.add(approval);
  const refused = { askID: "ask_1", decision: "deny", by: "caller", source: "user" } as const;
  log.add({ type: "ask.answered", data: refused });
  ends(log, 1, "failed");
  // Control: its agent leaves it as it is.
  expect(nextStep(rests(log)).kind).not.toBe("approve");
  ends(log, 0, "failed");
  log.add({ type: "phase.written", data: { sessionID, callID: "w", phase: { ...phase("a"), objective: "Less." } } });
  expect(nextStep(rests(log)).kind).toBe("approve");
});

test("a time that its agent set comes before the reminder of a plan that waits for its approval", () => {
  const log = running(["plan"]);
  const watch = (lookAt: string) =>
    log.add({ type: "task.watched", data: { sessionID, callID: "c", taskID: "task_one", lookAt } });
  rests(log);
  const asked = nextStep(log.add(approval));
  expect(nextStep(watch("2026-11-28T08:00:00.000Z"))).toEqual(asked);
  expect(nextStep(watch("2026-11-21T08:30:00.000Z"))).toEqual({ kind: "ask", until: "2026-11-21T08:30:00.000Z" });
});
