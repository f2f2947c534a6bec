import { describe, expect, test } from "vitest";
import { reachedOf, usedOf } from "../../../src/domain/mission/budget.ts";
import { type Grant, grantOf, sameFailures, shareOf } from "../../../src/domain/mission/grant.ts";
import { nextStep } from "../../../src/domain/mission/next.ts";
import { noUsage } from "../../../src/domain/state/stream.ts";
import type { MissionBudget } from "../../../src/protocol/mission/status.ts";
import type { Usage } from "../../../src/protocol/task/status.ts";
import { dispatched, missionLog, phase, replied, taskEnded, woken } from "../../harness/mission-log.ts";
import { type Random, seededRandom } from "../../harness/random.ts";

/** What Tasks of a Mission are given: over every sequence of what is granted, used and given back, the cap holds. */

const largestCall = 40;
const kept = 15;

type Sim = { taskID: string; budget: MissionBudget; tokens: number; steps: number; running: boolean; unheard: number };

const usageOf = ({ tokens, steps }: { tokens: number; steps: number }): Usage => ({
  ...noUsage,
  inputTokens: tokens,
  modelCalls: steps,
});

/** Plays one Mission by chance. Resolves to the most that the tree used beyond its cap and the calls under way. */
const play = (random: Random, again: typeof grantOf): number => {
  const log = missionLog();
  let cap = { maxTokens: 1000 + random.below(3000), maxSteps: 40 + random.below(80) };
  log.add(...woken(cap));
  log.add({
    type: "plan.written",
    data: { sessionID: "ses_1", callID: "c", phases: ["a", "b", "c", "d"].map((id) => phase(id)) },
  });
  const tasks: Sim[] = [];
  const own = { tokens: 0, steps: 0 };
  let together = 0;
  let beyond = Number.NEGATIVE_INFINITY;
  const stateOf = (taskID: string) => {
    const task = log.state().tasks.find((one) => one.taskID === taskID);
    if (task === undefined) throw new Error(`no ${taskID}`);
    return task;
  };
  const goesOn = (task: Sim, granted: Grant, reopens: boolean) => {
    if (!granted.ok) return;
    const fact = { sessionID: "ses_1", taskID: task.taskID, reserved: granted.budget };
    log.add(reopens ? { type: "task.reopened", data: fact } : { type: "task.reserved", data: fact });
    task.budget = granted.budget ?? {};
    task.running = true;
    // Granted beside everything that others may still use.
    const total = own.tokens + tasks.reduce((all, one) => all + one.tokens, 0);
    beyond = Math.max(
      beyond,
      usedOf(log.state()).maxTokens - Math.max(cap.maxTokens, total) - largestCall * (together + 1),
    );
  };
  const acts: (() => void)[] = [
    // The Mission's agent asks its model.
    () => {
      if (nextStep(log.state()).kind !== "turn") return;
      const tokens = random.below(largestCall) + 1;
      own.tokens += tokens;
      own.steps += 1;
      const calls = random.below(2) === 0 ? [] : ["call"];
      log.add(
        replied(log.state(), { usage: usageOf({ tokens, steps: 1 }), finish: calls.length === 0 ? "end" : "calls" }),
      );
    },
    () => {
      const first = random.below(2) === 0;
      const wanted = random.below(3) === 0 ? { maxTokens: random.below(800) + 1 } : undefined;
      const by = random.pick([{}, { squad: "base" }, { squad: "large" }]);
      const share = shareOf(log.state(), wanted, { first, kept, ...by });
      if (!share.ok || nextStep(log.state()).kind === "pause") return;
      const call = `call_${log.events.length}`;
      const squad = { ...dispatched(call).data.squad, id: by.squad ?? "base" };
      log.add(dispatched(call, { phase: random.pick(["a", "b", "c", "d"]), reserved: share.budget, squad }));
      tasks.push({
        taskID: `task_${call}`,
        budget: share.budget ?? {},
        tokens: 0,
        steps: 0,
        running: true,
        unheard: 0,
      });
      if (first) {
        const used = usedOf(log.state());
        if (used.maxTokens > cap.maxTokens * (1 - kept / 100)) throw new Error("A first attempt got what is kept back");
      }
    },
    // A Task asks its model while its own budget lasts, and else ends.
    ...Array.from({ length: 4 }, () => () => {
      const running = tasks.filter((task) => task.running);
      if (running.length === 0) return;
      together = Math.max(together, running.length);
      const task = random.pick(running);
      const { maxTokens = Infinity, maxSteps = Infinity } = task.budget;
      if (task.tokens < maxTokens && task.steps < maxSteps && random.below(8) > 0) {
        task.tokens += random.below(largestCall) + 1;
        task.steps += 1;
        return;
      }
      task.running = false;
      log.add(taskEnded(stateOf(task.taskID), random.pick(["completed", "failed"]), usageOf(task)));
    }),
    // A message, of a person or of the agent, with another budget or without.
    () => {
      const ended = tasks.filter((task) => !task.running);
      if (ended.length === 0) return;
      const task = random.pick(ended);
      const wanted = random.below(2) === 0 ? undefined : { maxTokens: task.tokens + random.below(600) };
      const used = { usage: usageOf(task), minutes: 0 };
      const how = { own: task.budget, wanted, used, running: false, kept: random.pick([0, kept]), exact: false };
      goesOn(task, again(log.state(), stateOf(task.taskID), how), true);
    },
    // PATCH of one that runs.
    () => {
      const running = tasks.filter((task) => task.running);
      if (running.length === 0) return;
      const task = random.pick(running);
      const wanted = { maxTokens: random.below(1500) + 1, maxSteps: random.below(60) + 1 };
      const used = { usage: usageOf(task), minutes: 0 };
      const how = { own: task.budget, wanted, used, running: true, kept: 0, exact: true };
      goesOn(task, again(log.state(), stateOf(task.taskID), how), false);
    },
    () => {
      if (random.below(6) > 0) return;
      cap = { maxTokens: cap.maxTokens + random.below(500), maxSteps: cap.maxSteps + random.below(20) };
      log.add(...woken(cap));
    },
    () => log.add(...woken()),
  ];
  for (let acted = 0; acted < 150; acted += 1) {
    const step = nextStep(log.state());
    if (step.kind === "pause") log.add({ type: "mission.paused", data: { sessionID: "ses_1", ...step.reached } });
    random.pick(acts)();
    const tokens = own.tokens + tasks.reduce((all, one) => all + one.tokens, 0);
    const steps = own.steps + tasks.reduce((all, one) => all + one.steps, 0);
    const underWay = together + 1;
    beyond = Math.max(beyond, tokens - cap.maxTokens - underWay * largestCall, steps - cap.maxSteps - underWay);
  }
  return beyond;
};

const seedOf = () => Number(process.env["TEST_SEED"] ?? Date.now() % 1_000_000_000);

test("over random dispatches, ends, messages and changes the tree never passes its cap by more than the calls under way", () => {
  const seed = seedOf();
  const random = seededRandom(seed);
  for (let missions = 0; missions < 120; missions += 1)
    expect(play(random, grantOf), `seed ${seed}`).toBeLessThanOrEqual(0);
});

test("control: where a Task that goes on keeps its old budget without reserving it, that is found", () => {
  const seed = seedOf();
  const random = seededRandom(seed);
  const asBefore: typeof grantOf = (_state, _task, { own, wanted }) => ({ ok: true, budget: { ...own, ...wanted } });
  const found = Array.from({ length: 120 }, () => play(random, asBefore)).filter((beyond) => beyond > 0);
  expect(found.length, `seed ${seed}`).toBeGreaterThan(0);
});

describe("shares", () => {
  const begun = (budget: MissionBudget, ...ids: string[]) => {
    const log = missionLog();
    log.add(...woken(budget));
    log.add({
      type: "plan.written",
      data: { sessionID: "ses_1", callID: "c", phases: ids.map((id) => phase(id)) },
    });
    return log;
  };
  const use = (tokens: number) => usageOf({ tokens, steps: 1 });

  test("a first attempt leaves what is kept back, a correction a third of it", () => {
    const log = begun({ maxTokens: 1000 }, "a", "b");
    expect(shareOf(log.state(), undefined, { first: true, kept })).toEqual({ ok: true, budget: { maxTokens: 425 } });
    expect(shareOf(log.state(), { maxTokens: 5000 }, { first: true, kept })).toMatchObject({
      budget: { maxTokens: 850 },
    });
    expect(shareOf(log.state(), { maxTokens: 5000 }, { first: false, kept })).toMatchObject({
      budget: { maxTokens: 950 },
    });
  });

  test("the last phase gets three times the mean of those that ended, not all that is left", () => {
    const log = begun({ maxTokens: 100_000 }, "a", "b", "z");
    for (const [id, tokens] of [
      ["a", 2000],
      ["b", 4000],
    ] as const) {
      const state = log.add(dispatched(id, { phase: id, reserved: { maxTokens: 20_000 } }));
      log.add(taskEnded(state.tasks.at(-1)!, "completed", use(tokens)));
    }
    expect(shareOf(log.state(), undefined, { first: true, kept })).toEqual({ ok: true, budget: { maxTokens: 9000 } });
    // What the agent asks for itself is bounded by the cap alone.
    expect(shareOf(log.state(), { maxTokens: 30_000 }, { first: true, kept })).toMatchObject({
      budget: { maxTokens: 30_000 },
    });
  });

  test("what another squad used does not bound a squad, nor is it in the mean of its own phases", () => {
    const log = begun({ maxTokens: 100_000 }, "a", "b", "c", "d", "y", "z");
    const large = { ...dispatched("x").data.squad, id: "large" };
    const did = (id: string, tokens: number, more: Parameters<typeof dispatched>[1] = {}) => {
      const state = log.add(dispatched(id, { phase: id, reserved: { maxTokens: 20_000 }, ...more }));
      log.add(taskEnded(state.tasks.at(-1)!, "completed", use(tokens)));
    };
    const shareFor = (squad: string) => shareOf(log.state(), undefined, { first: true, kept, squad });
    did("a", 1000);
    did("b", 1000);
    expect(shareFor("base")).toMatchObject({ budget: { maxTokens: 3000 } });
    // An equal part of what is left, for each of the four phases that are open.
    expect(shareFor("large")).toMatchObject({ budget: { maxTokens: 20_750 } });
    did("c", 6000, { squad: large });
    did("d", 4000, { squad: large });
    expect(shareFor("large")).toMatchObject({ budget: { maxTokens: 15_000 } });
    expect(shareFor("base")).toMatchObject({ budget: { maxTokens: 3000 } });
  });

  test("while its Tasks may use all that is left the agent waits for what they give back, and is not paused", () => {
    const log = begun({ maxTokens: 1000 }, "a");
    log.add(dispatched("a", { reserved: { maxTokens: 1000 } }));
    log.add(...woken());
    expect(reachedOf(log.state())).toMatchObject({ name: "maxTokens", used: 1000 });
    expect(nextStep(log.state())).toEqual({ kind: "sleep", until: null });
    log.add(taskEnded(log.state().tasks[0]!, "completed", use(100)));
    expect(nextStep(log.state()).kind).toBe("turn");
  });
});

test("minutes are those of the attempt that begins, beside those of earlier ones", () => {
  const log = missionLog();
  log.add(...woken({ maxMinutes: 10 }), dispatched("a", { reserved: { maxMinutes: 5 } }));
  const ended = taskEnded(log.state().tasks[0]!, "failed");
  log.add({ ...ended, data: { ...ended.data, minutes: 4 } } as typeof ended);
  const used = { usage: noUsage, minutes: 4 };
  const how = { own: { maxMinutes: 5 }, wanted: undefined, used, running: false, kept: 0, exact: false };
  const granted = grantOf(log.state(), log.state().tasks[0]!, how);
  expect(granted).toEqual({ ok: true, budget: { maxMinutes: 5 } });
  log.add({ type: "task.reopened", data: { sessionID: "ses_1", taskID: "task_a", reserved: { maxMinutes: 5 } } });
  expect(usedOf(log.state()).maxMinutes).toBe(9);
  const rest = { ...how, used: { usage: noUsage, minutes: 8 } };
  expect(grantOf(log.state(), log.state().tasks[0]!, rest)).toEqual({ ok: true, budget: { maxMinutes: 2 } });
});

test("failures of a Task in a row are the same when their code is", () => {
  const end = (outcome: "failed" | "completed", code?: string) => {
    const { data } = taskEnded(
      { ...dispatched("a").data, ends: [], attempt: 1, lookAt: null, reconciled: null },
      outcome,
    ) as {
      data: Parameters<typeof sameFailures>[0]["ends"][number];
    };
    return { ...data, ...(code === undefined ? {} : { code }) };
  };
  expect(sameFailures({ ends: [end("failed", "x"), end("failed", "y"), end("failed", "y")] })).toEqual({
    times: 2,
    code: "y",
  });
  expect(sameFailures({ ends: [end("failed", "y"), end("completed")] }).times).toBe(0);
});
