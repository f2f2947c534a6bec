import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { DomainEvent } from "../../src/domain/event.ts";
import type { Step } from "../../src/domain/task/next/step.ts";
import { createStuckGuard, Stuck } from "../../src/engine/stuck.ts";

/** A run that asks for the same step over and over, and whose steps record what `facts` says. */
const runOf = (facts: (turn: number) => number) => {
  let version = 7;
  const slept: number[] = [];
  const recorded: DomainEvent[] = [];
  const guard = createStuckGuard({
    version: () => version,
    record: (events) => {
      version += events.length;
      recorded.push(...events);
      return Promise.resolve();
    },
    sleep: (ms) => {
      slept.push(ms);
      return Promise.resolve();
    },
  });
  return {
    slept,
    recorded,
    version: () => version,
    /** Takes the step so often; resolves to the number of turns. */
    async take(step: string, most: number, before?: (turn: number) => Promise<void>): Promise<number> {
      for (let turn = 1; turn <= most; turn += 1) {
        await guard(step);
        await before?.(turn);
        version += facts(turn);
      }
      return most;
    },
  };
};

/** Every step of a Task but those that end its run; the compiler names a new one. */
const steps: Record<Exclude<Step["kind"], "done" | "wait" | "ask">, true> = {
  approve: true,
  renew: true,
  recover: true,
  baseline: true,
  turn: true,
  commit: true,
  check: true,
  contrast: true,
  "contrast-same": true,
  sources: true,
  output: true,
  revert: true,
  merge: true,
  propose: true,
  compare: true,
  feedback: true,
  refuse: true,
  review: true,
  revise: true,
  accept: true,
  land: true,
  "open-request": true,
  "see-request": true,
  install: true,
  settle: true,
};

describe("a run whose step records nothing", () => {
  test.each(Object.keys(steps))(
    "%s: is put on record, waits 1, 5 and 30 s, and fails at the fourth time",
    async (step) => {
      const run = runOf(() => 0);
      await expect(run.take(step, 100)).rejects.toThrow(Stuck);
      expect(run.slept).toEqual([1000, 5000, 30_000]);
      expect(run.recorded).toEqual([7, 8, 9].map((version) => ({ type: "run.stuck", data: { step, version } })));
    },
  );

  test.each(Object.keys(steps))("control: %s with a fact goes on as long as it likes", async (step) => {
    const run = runOf(() => 1);
    expect(await run.take(step, 1000)).toBe(1000);
    expect([run.slept, run.recorded]).toEqual([[], []]);
  });

  test("one fact in between begins the count anew", async () => {
    const run = runOf((turn) => (turn % 3 === 0 ? 1 : 0));
    expect(await run.take("review", 30)).toBe(30);
    expect(new Set(run.slept)).toEqual(new Set([1000, 5000]));
  });

  test("another step is no repetition", async () => {
    let version = 1;
    const slept: number[] = [];
    const guard = createStuckGuard({
      version: () => version,
      record: () => Promise.resolve((version += 1)),
      sleep: (ms) => Promise.resolve(void slept.push(ms)),
    });
    for (const step of ["check", "review", "check", "review"]) await guard(step);
    expect(slept).toEqual([]);
  });
});

describe("who takes steps", () => {
  const root = new URL("../../src/", import.meta.url);
  const textOf = (path: string) => readFileSync(new URL(path, root), "utf8");
  /** Loops without an end that decide what comes next, or ask a model, and have not asked the guard. */
  const unguarded = (text: string): number =>
    text
      .split("for (;;) {")
      .slice(1)
      .filter((loop) => {
        const decided = loop.search(/\bnextStep\(|\bmodel\.reply\(/);
        const body = loop.slice(0, loop.search(/\n {2}\}\n/));
        return decided >= 0 && decided < body.length && !body.includes("await notStuck(");
      }).length;
  const files = ["task/worker", "mission/worker", "agent/loop"].flatMap((room) =>
    readdirSync(new URL(`${room}/`, root)).map((name) => `${room}/${name}`),
  );
  const loops = files.filter((path) => /for \(;;\)[^]*(?:\bnextStep\(|\bmodel\.reply\()/.test(textOf(path)));

  test("asks the guard first: Tasks, Missions and agents; control: without that it is found", () => {
    expect(loops).toEqual(
      expect.arrayContaining(["task/worker/run.ts", "mission/worker/run.ts", "agent/loop/loop.ts"]),
    );
    expect(loops.filter((path) => unguarded(textOf(path)) > 0)).toEqual([]);
    for (const path of ["task/worker/run.ts", "mission/worker/run.ts", "agent/loop/loop.ts"])
      expect(unguarded(textOf(path).replaceAll("await notStuck(", "void (")), path).toBe(1);
  });
});
