import { expect, test } from "vitest";
import { agentNotice } from "../../../src/domain/mission/wording.ts";
import { nextStep } from "../../../src/domain/mission/next.ts";
import type { DomainEvent } from "../../../src/domain/event.ts";
import { planEditRefusal } from "../../../src/mission/tool/refusal.ts";
import { dispatched, edited, missionLog, phase, replied, woken } from "../../harness/mission-log.ts";

/** What a person's change of the plan does to its Mission: told once, a reason to wake, or a plan to be approved anew. */

const sessionID = "ses_1";
const planned = (approve?: "plan"[]) => {
  const log = missionLog();
  log.add(...woken(undefined, approve));
  log.add({ type: "plan.written", data: { sessionID, callID: "p", phases: [phase("a"), phase("b")] } });
  return log;
};
type Log = ReturnType<typeof missionLog>;
const rests = (log: Log) => log.add(replied(log.state(), { text: "So?" }));
const asks = (askID: string): DomainEvent => ({
  type: "ask.opened",
  data: {
    askID,
    sessionID,
    callID: null,
    kind: "approval",
    of: "plan",
    would: { subject: "0", commit: null, tree: null, branch: null },
    prompt: "Carry out this plan?",
    options: ["allow", "deny"],
    default: null,
    expiresAt: null,
  },
});
const answers = (askID: string, decision: "allow" | "deny"): DomainEvent => ({
  type: "ask.answered",
  data: { askID, decision, by: "caller", source: "ada" },
});
const more = { ...phase("a"), objective: "More." };

test.each<[name: string, before: (log: Log) => void, step: string]>([
  ["a plan that nobody approves: its agent takes a turn", (log) => rests(log), "turn"],
  ["a plan that is asked about: it is asked about anew, and its agent not", (log) => asked(log), "approve"],
  ["one that was refused without a word", (log) => (asked(log), log.add(answers("ask_1", "deny"))), "approve"],
  ["one that was approved", (log) => (asked(log), log.add(answers("ask_1", "allow"))), "approve"],
])("a person changes %s", (name, before, step) => {
  const log = planned(name.startsWith("a plan that nobody") ? [] : ["plan"]);
  before(log);
  const read = log.state();
  const state = log.add(edited(more));
  expect(nextStep(state).kind).toBe(step);
  expect(state.messages).toBe(read.messages + 1);
  expect([state.planRevision, state.planEdited, state.words]).toEqual([state.version, state.version, state.version]);
  // Control: the words that its agent writes are no news to it.
  const same = planned(name.startsWith("a plan that nobody") ? [] : ["plan"]);
  before(same);
  const own = same.add({ type: "phase.written", data: { sessionID, callID: "q", phase: more } });
  expect([own.planRevision, own.planEdited, own.messages]).toEqual([own.version, 0, same.state().messages]);
});

const asked = (log: Log) => {
  rests(log);
  log.add(asks("ask_1"));
};

test("a change back to the plan that was approved needs no approval, and wakes its agent", () => {
  const log = planned(["plan"]);
  asked(log);
  log.add(answers("ask_1", "allow"), dispatched("one"));
  rests(log);
  expect(nextStep(log.state()).kind).toBe("sleep");
  log.add(edited(more));
  expect(nextStep(log.state()).kind).toBe("approve");
  expect(nextStep(log.add(edited(phase("a")))).kind).toBe("turn");
});

test("a Mission that is done goes on, and is not merged or proposed as it was", () => {
  const log = planned();
  log.add({
    type: "mission.finished",
    data: { sessionID, callID: "f", outcome: "done", summary: "All.", wakeAt: null },
  });
  rests(log);
  expect(nextStep(log.state()).kind).toBe("sleep");
  const state = log.add(edited(more));
  expect(state.finished).toBeNull();
  expect(nextStep(state).kind).toBe("turn");
});

test("until its agent has read a change it may not act on the plan; then it may", () => {
  const log = planned(["plan"]);
  rests(log);
  expect(planEditRefusal(log.state())).toBeUndefined();
  log.add(edited(more));
  expect(planEditRefusal(log.state())).toMatch(/^The user has changed the plan meanwhile\./);
  rests(log);
  expect(planEditRefusal(log.state())).toBeUndefined();
});

test("its agent reads the words of a phase, and no notice of what it wrote itself", () => {
  const by = { sessionID, callID: null };
  expect(agentNotice(edited(more))).toBe(
    'The user wrote phase a of the plan. It is now:\n{"title":"Phase a","phase":"a","objective":"More.","acceptance":[],"after":[]}',
  );
  expect(agentNotice({ type: "phase.dropped", data: { ...by, phase: "a" } })).toBe(
    "The user dropped phase a from the plan.",
  );
  expect(agentNotice({ type: "plan.ordered", data: { ...by, phases: ["b", "a"] } })).toBe(
    "The user put the phases of the plan into this order: b, a.",
  );
  expect(agentNotice({ type: "phase.written", data: { sessionID, callID: "q", phase: more } })).toBeUndefined();
});
