import { expect, test } from "vitest";
import { changeSentence, planChange, planChangeOf, planQuestion } from "../../../src/domain/mission/plan-change.ts";
import type { PlannedPhase } from "../../../src/protocol/mission/status.ts";
import { type MissionLog, missionLog, phase, woken } from "../../harness/mission-log.ts";
import { type Random, seededRandom } from "../../harness/random.ts";

/** What differs between the plan that a person is asked about and the one that was approved last. */

const sessionID = "ses_1";
const asks = (log: MissionLog, askID: string) =>
  log.add({
    type: "ask.opened",
    data: {
      askID,
      sessionID,
      callID: null,
      kind: "approval",
      of: "plan",
      would: { subject: askID, commit: null, tree: null, branch: null },
      prompt: planQuestion(log.state()),
      options: ["allow", "deny"],
      default: null,
      expiresAt: null,
    },
  });
const answers = (log: MissionLog, askID: string, decision: "allow" | "deny", answer?: string) =>
  log.add({
    type: "ask.answered",
    data: { askID, by: "caller", source: "ada", decision, ...(answer === undefined ? {} : { answer }) },
  });
const plans = (log: MissionLog, ...phases: PlannedPhase[]) =>
  log.add({ type: "plan.written", data: { sessionID, callID: "call_1", phases } });

test("the difference is to the plan that was approved last, also after a later one was denied", () => {
  const log = missionLog();
  log.add(...woken(undefined, ["plan"]));
  expect(planChangeOf(plans(log, phase("a"), phase("b")))).toBeNull();
  expect(planQuestion(log.state())).toBe("Carry out this plan? It has 2 phases.");
  asks(log, "ask_1");
  expect(planChangeOf(answers(log, "ask_1", "allow"))).toBeNull();

  const harder: PlannedPhase = { ...phase("a"), objective: "More.", acceptance: ["It is seen."] };
  const change = {
    added: [phase("c")],
    dropped: [phase("b")],
    changed: [
      {
        id: "a",
        title: "Phase a",
        was: { objective: "a", acceptance: [] },
        is: { objective: "More.", acceptance: ["It is seen."] },
      },
    ],
    reordered: false,
  };
  expect(planChangeOf(plans(log, harder, phase("c")))).toEqual(change);
  expect(planQuestion(log.state())).toBe(
    'Carry out the changed plan? It has 2 phases. What differs from the plan that was approved last: 1 new ("Phase c"); 1 dropped ("Phase b"); 1 changed ("Phase a").',
  );
  asks(log, "ask_2");
  expect(planChangeOf(answers(log, "ask_2", "deny", "Keep b."))).toEqual(change);
  // A plan that was approved once is asked about again after a no.
  const back = plans(log, phase("a"), phase("b"));
  expect(planChangeOf(back)).toEqual({ added: [], dropped: [], changed: [], reordered: false });
  expect(planQuestion(back)).toContain("It is the plan that was approved last.");
  asks(log, "ask_3");
  expect(planChangeOf(answers(log, "ask_3", "allow"))).toBeNull();
});

test("whatever plan follows another, what differs makes it of the other, and nothing else is named", () => {
  const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 1_000_000_000);
  const random = seededRandom(seed);
  const planBy = ({ below }: Random): PlannedPhase[] =>
    ["a", "b", "c", "d"]
      .filter(() => below(3) > 0)
      .map((id) => ({ ...phase(id), objective: `o${below(2)}`, acceptance: below(2) === 0 ? [] : ["seen"] }))
      .toSorted(() => below(3) - 1);
  for (let round = 0; round < 500; round += 1) {
    const before = planBy(random);
    const plan = planBy(random);
    const { added, dropped, changed, reordered } = planChange(before, plan);
    const gone = new Set(dropped.map(({ id }) => id));
    const made = before
      .filter(({ id }) => !gone.has(id))
      .map((one) => ({ ...one, ...changed.find(({ id }) => id === one.id)?.is }));
    const at = `seed ${seed}, round ${round}`;
    const kept = plan.filter(({ id }) => made.some((one) => one.id === id));
    expect(new Set([...made, ...added]), at).toEqual(new Set(plan));
    expect(JSON.stringify(made) !== JSON.stringify(kept), at).toBe(reordered);
    for (const { was, is } of changed) {
      expect(Object.keys(was), at).toEqual(Object.keys(is));
      expect(was, at).not.toEqual(is);
    }
    for (const one of dropped) expect(before, at).toContainEqual(one);
  }
});

test("a long difference names the first of each kind", () => {
  const many = Array.from({ length: 5 }, (_, index) => phase(`p${index}`));
  expect(changeSentence(planChange([], many))).toBe(
    'What differs from the plan that was approved last: 5 new ("Phase p0", "Phase p1", "Phase p2" and 2 more).',
  );
  expect(changeSentence(planChange(many.slice(0, 2), many.slice(0, 2).toReversed()))).toBe(
    "What differs from the plan that was approved last: the order.",
  );
});
