import { expect, test } from "vitest";
import { inOrder, planDifference, planProblem, withPhase } from "../../../src/domain/mission/plan.ts";
import { nextStep } from "../../../src/domain/mission/next.ts";
import { planOf } from "../../../src/domain/mission/status.ts";
import type { PlannedPhase } from "../../../src/protocol/mission/status.ts";
import { missionLog, phase as named, replied, woken } from "../../harness/mission-log.ts";
import { type Random, seededRandom } from "../../harness/random.ts";

/** The plan as facts of its phases. */

const phase = (id: string, after: string[] = []): PlannedPhase => ({ ...named(id), after });
const seedOf = () => Number(process.env["TEST_SEED"] ?? Date.now() % 1_000_000_000);

test("whatever plan follows another, the facts between them make it, and no others are written", () => {
  const seed = seedOf();
  const random = seededRandom(seed);
  const planBy = ({ below }: Random): PlannedPhase[] => {
    const ids = ["a", "b", "c", "d", "e"].filter(() => below(3) > 0);
    return ids.map((id) => ({ ...phase(id), objective: `o${below(2)}` })).toSorted(() => below(3) - 1);
  };
  const log = missionLog();
  log.add(...woken());
  const at = { sessionID: "ses_1", callID: "c" };
  for (let plans = 0; plans < 300; plans += 1) {
    const before = log.state().plan;
    const next = planBy(random);
    const { written, dropped, order } = planDifference(before, next);
    for (const one of dropped) log.add({ type: "phase.dropped", data: { ...at, phase: one } });
    for (const one of written) log.add({ type: "phase.written", data: { ...at, phase: one } });
    if (order !== null) log.add({ type: "plan.ordered", data: { ...at, phases: order } });
    expect(log.state().plan, `seed ${seed}`).toEqual(next);
    const same = before.filter((one) => next.some((other) => JSON.stringify(other) === JSON.stringify(one)));
    expect(written.length, `seed ${seed}`).toBe(next.length - same.length);
  }
  // What services wrote before is read on.
  log.add({ type: "plan.written", data: { ...at, phases: [phase("z")] } });
  expect(log.state().plan).toEqual([phase("z")]);
});

test("a circle is found wherever it is, and only where there is one", () => {
  const seed = seedOf();
  const random = seededRandom(seed);
  let circles = 0;
  for (let plans = 0; plans < 500; plans += 1) {
    const ids = ["a", "b", "c", "d", "e"];
    const phases = ids.map((id) =>
      phase(
        id,
        ids.filter((other) => other !== id && random.below(5) === 0),
      ),
    );
    const reached = (from: string, seen = new Set<string>()): Set<string> => {
      for (const next of phases.find(({ id }) => id === from)?.after ?? [])
        if (!seen.has(next)) reached(next, seen.add(next));
      return seen;
    };
    const inside = ids.filter((id) => reached(id).has(id));
    const problem = planProblem(phases);
    if (inside.length === 0) expect(problem, `seed ${seed}`).toBeUndefined();
    else
      expect(
        inside.map((id) => `"${id}"`),
        `seed ${seed}`,
      ).toContain(/"\w"/.exec(problem ?? "")?.[0]);
    circles += inside.length > 0 ? 1 : 0;
  }
  expect(circles).toBeGreaterThan(20);
});

test("five hundred phases, each after two of those before, are judged at once", () => {
  const log = missionLog();
  const at = { sessionID: "ses_1", callID: "c" };
  const plan = Array.from({ length: 500 }, (_, index) =>
    phase(
      `p-${index}`,
      [index - 1, index - 2].filter((before) => before >= 0).map((before) => `p-${before}`),
    ),
  );
  const begun = performance.now();
  expect(planProblem(plan)).toBeUndefined();
  for (const one of plan) log.add({ type: "phase.written", data: { ...at, phase: one } });
  expect(planOf(log.state()).filter(({ state }) => state === "waiting")).toHaveLength(499);
  // Gone through from phase to phase it would be more than the age of the world.
  expect(performance.now() - begun).toBeLessThan(5000);
});

test("a long plan that waits for its approval is written down once, not with every event", () => {
  const log = missionLog();
  log.add(...woken(undefined, ["plan"]));
  const phases = Array.from({ length: 500 }, (_, index) => ({
    ...phase(`p-${index}`),
    objective: "word ".repeat(400),
  }));
  log.add({ type: "plan.written", data: { sessionID: "ses_1", callID: "c", phases } });
  log.add(replied(log.state(), { text: "So?" }));
  expect(nextStep(log.state()).kind).toBe("approve");
  const begun = performance.now();
  for (let index = 0; index < 1000; index += 1)
    log.add({ type: "mission.updated", data: { sessionID: "ses_1", title: `Title ${index}` } });
  expect(performance.now() - begun).toBeLessThan(3000);
  expect(nextStep(log.state()).kind).toBe("approve");
});

test("a phase is put where it is to stand", () => {
  const plan = [phase("a"), phase("b")];
  expect(withPhase(plan, phase("c")).map(({ id }) => id)).toEqual(["a", "b", "c"]);
  expect(inOrder(withPhase(plan, phase("c")), ["a", "c"]).map(({ id }) => id)).toEqual(["a", "c", "b"]);
});
