import { describe, expect, test } from "vitest";
import type { EventData } from "../../../src/protocol/event/event.ts";
import type { DomainEvent } from "../../../src/domain/event.ts";
import { nextStep } from "../../../src/domain/mission/next.ts";
import { planOf } from "../../../src/domain/mission/status.ts";
import { standingAmong, standingOf } from "../../../src/domain/mission/standing.ts";
import { noUsage } from "../../../src/domain/state/stream.ts";
import { missionSummary } from "../../../src/protocol/mission/status.ts";
import {
  dispatched,
  growByChance,
  type MissionLog,
  missionLog,
  phase,
  replied,
  taskEnded,
  woken,
} from "../../harness/mission-log.ts";
import { seededRandom } from "../../harness/random.ts";

/**
 * Where a Mission stands, for every log. What it is held against reads the facts themselves, and nothing of the fold.
 */

const words: ReadonlySet<string> = new Set(missionSummary.shape.state.options);

/** What the facts say, read from the newest back. */
const factsOf = (events: readonly DomainEvent[]) => {
  const running = new Map<string, boolean>();
  const asks = new Map<string, boolean>();
  let aborted = false;
  let said: string | null = null;
  let wakeAt: string | null = null;
  let paused = false;
  let judging = false;
  let approval: string | null = null;
  const plan = new Map<string, string>();
  /** The plan that a person is asked about, that they said yes to last, and whether they said no since. */
  let [askedAbout, agreed, denied, approves] = ["", "", false, false];
  const planNow = () => JSON.stringify([...plan.values()]);
  const isDue = () => approves && plan.size > 0 && (denied || agreed !== planNow());
  /**
   * An end that its agent does not hear of: withdrawn by itself, or completed while a person is asked about the plan.
   */
  const isQuiet = ({ outcome, phase: of, verdict }: EventData["task.ended"]): boolean =>
    verdict === undefined &&
    (outcome === "completed"
      ? approval !== null && askedAbout === planNow()
      : outcome === "cancelled" &&
        !plan.has(of) &&
        (said === "done" || judging || isDue() || [...running.values()].some(Boolean)));
  const merges = new Set<string>();
  /** Why its branch was not merged. */
  let problem: string | null = null;
  for (const event of events) {
    if (event.type === "task.dispatched" || event.type === "task.reopened") running.set(event.data.taskID, true);
    if (event.type === "task.ended") running.set(event.data.taskID, false);
    if (event.type === "ask.opened") {
      asks.set(event.data.askID, true);
      if (event.data.kind === "approval") [approval, askedAbout] = [event.data.askID, planNow()];
    }
    if (event.type === "ask.answered") {
      asks.set(event.data.askID, false);
      if (event.data.askID === approval) {
        approval = null;
        if (event.data.by === "caller") denied = event.data.decision === "deny";
        if (event.data.by === "caller" && !denied) agreed = askedAbout;
      }
    }
    if (event.type === "plan.written") {
      plan.clear();
      for (const one of event.data.phases) plan.set(one.id, JSON.stringify(one));
    }
    if (event.type === "phase.written") {
      plan.set(event.data.phase.id, JSON.stringify(event.data.phase));
      // A person wrote it, which its agent hears of unless a person says yes first.
      if (!isDue() || said === "done" || judging) [said, wakeAt, problem, judging] = [null, null, null, false];
    }
    if (event.type === "mission.woken") approves = event.data.approve?.includes("plan") ?? approves;
    if (event.type === "mission.judging") judging = true;
    if (event.type === "mission.finished" || event.type === "mission.aborted") judging = false;
    if (event.type === "mission.aborted") {
      aborted = true;
      asks.clear();
      approval = null;
    }
    if (event.type === "mission.woken") [aborted, paused] = [false, false];
    if (event.type === "task.ended") paused = false;
    if (event.type === "mission.paused") paused = true;
    if (event.type === "mission.finished") [said, wakeAt] = [event.data.outcome, event.data.wakeAt];
    if (event.type === "task.dispatched" && event.data.merge !== undefined) {
      merges.add(event.data.taskID);
      problem = null;
    }
    if (event.type === "mission.unmerged") problem = event.data.reason;
    if (event.type === "task.ended" && event.data.verdict !== undefined && event.data.verdict.verdict !== "rejected")
      continue;
    if (event.type === "task.ended" && merges.has(event.data.taskID))
      problem = event.data.outcome === "completed" ? null : event.data.outcome;
    else if (event.type === "task.ended" && isQuiet(event.data)) continue;
    else if (["message.received", "task.ended", "task.asked", "mission.reminded"].includes(event.type))
      [said, wakeAt, problem, judging] = [null, null, null, false];
  }
  const count = (map: Map<string, boolean>) => [...map.values()].filter(Boolean).length;
  if (said === "done" && problem !== null) said = "blocked";
  return { aborted, paused, said, wakeAt, running: count(running), asks: count(asks) };
};

/** What landed on its branch is due to be merged. */
const landAndFinish = (log: MissionLog): void => {
  const state = log.add(replied(log.state(), { text: "Runs." }), dispatched("landed"));
  log.add(taskEnded(state.tasks[0]!, "completed", noUsage, "2".repeat(40)));
  const data = { sessionID: "ses_1", callID: "call_done", outcome: "done" as const, summary: "Done.", wakeAt: null };
  log.add(replied(log.state()), { type: "mission.finished", data });
};

test("every log has exactly one word, which its facts bear out; a standstill is told once", () => {
  const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 1_000_000_000);
  const random = seededRandom(seed);
  const met = new Map<string, number>();
  let merges = 0;
  let verdicts = 0;
  for (let logs = 0; logs < 200; logs += 1) {
    const merging = random.below(4) === 0;
    const log = missionLog(merging ? "branch" : "commit");
    const budget = random.below(3) === 0 ? { maxTokens: 40 } : undefined;
    log.add(...woken(budget, random.below(2) === 0 ? ["plan"] : [], merging ? "auto" : undefined));
    if (merging) landAndFinish(log);
    for (let grown = 0; grown < 40; grown += 1) {
      for (const event of growByChance(log, random)) {
        const before = log.state();
        const state = log.add(event);
        const { state: word, reason } = standingOf(state);
        const step = nextStep(state);
        const facts = factsOf(log.events);
        const about = `seed ${seed}: ${log.events.map(({ type }) => type).join(" ")} is ${word}`;
        expect(words, about).toContain(word);
        met.set(word, (met.get(word) ?? 0) + 1);
        if (event.type === "task.dispatched" && event.data.merge !== undefined) merges += 1;
        if (event.type === "task.ended" && event.data.verdict !== undefined) verdicts += 1;
        expect(word === "aborted", about).toBe(facts.aborted);
        if (facts.aborted) continue;
        expect(word === "asking", about).toBe(facts.asks > 0);
        if (word === "done" || word === "blocked") expect([facts.said, facts.running], about).toEqual([word, 0]);
        if (word === "paused") expect(facts.paused, about).toBe(true);
        // Nothing runs, nothing is due, nobody is asked: and only then.
        const still =
          (step.kind === "sleep" || step.kind === "tell") &&
          facts.running === 0 &&
          facts.asks === 0 &&
          facts.wakeAt === null &&
          !facts.paused &&
          facts.said !== "done" &&
          facts.said !== "blocked" &&
          state.deferred === null;
        expect(word === "stalled", about).toBe(still);
        if (word === "stalled") expect(reason, about).toMatch(/\S/);
        if (event.type === "mission.stalled" || event.type === "mission.waiting") {
          expect(nextStep(before).kind, about).toBe("tell");
          expect(step.kind, about).not.toBe("tell");
        }
      }
    }
  }
  // None of them was only possible.
  expect(merges).toBeGreaterThan(0);
  expect(verdicts).toBeGreaterThan(0);
  expect([...met.keys()].toSorted()).toEqual([...words].toSorted());
});

describe("beside what its Tasks do now", () => {
  const log = missionLog();
  log.add(...woken());
  log.add(replied(log.state(), { text: "Runs." }), dispatched("one"));
  const waits = standingOf(log.state());

  test("it waits for what runs, is asked where one of them asks, and is due when one has ended unheard", () => {
    expect(waits).toMatchObject({ state: "waiting", reason: 'Waits for "Task one"' });
    expect(standingAmong(waits, { known: 1, active: 1, asking: 0 })).toMatchObject({ state: "waiting" });
    expect(standingAmong(waits, { known: 1, active: 1, asking: 1 })).toMatchObject({ state: "asking" });
    expect(standingAmong(waits, { known: 1, active: 0, asking: 0 })).toMatchObject({ state: "working" });
  });

  test("a phase that has landed stays done when its correction fails", () => {
    const other = missionLog();
    other.add(...woken(), { type: "plan.written", data: { sessionID: "ses_1", callID: "c", phases: [phase("a")] } });
    let state = other.add(dispatched("one"));
    const task = () => state.tasks[0]!;
    state = other.add(taskEnded(task(), "completed"));
    state = other.add({ type: "task.reopened", data: { sessionID: "ses_1", taskID: "task_one" } });
    expect(planOf(state)).toMatchObject([{ state: "running", correction: null }]);
    state = other.add(taskEnded(task(), "failed"));
    expect(planOf(state)).toMatchObject([{ state: "done", correction: "failed" }]);
  });
});

test("a turn that failed while there was no space waits for none any more; control: one that is there waits", () => {
  const log = missionLog();
  log.add(...woken());
  const paused = log.add({ type: "run.paused", data: { code: "disk_low", reason: "waits for space" } });
  expect(standingOf(paused)).toMatchObject({ state: "waiting", reason: "waits for space" });
  const failure = { code: "internal", message: "It broke.", retryable: true, remedy: "Wake it." };
  const failed = log.add(replied(paused, { finish: "failed", failure }));
  expect(standingOf(failed)).toMatchObject({ state: "stalled" });
});
