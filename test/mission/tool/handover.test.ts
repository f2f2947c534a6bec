import { expect, test } from "vitest";
import { handoverOf } from "../../../src/mission/tool/handover.ts";
import { dispatched, missionLog, phase, taskEnded, woken } from "../../harness/mission-log.ts";

/** What a phase is told of those before it. */

const sessionID = "ses_1";
const first = "a".repeat(40);
const second = "b".repeat(40);
const next = { ...phase("next"), after: ["credit"] };

/** A phase whose one Task has ended with these reports, each of them landed, and was corrected between. */
const delivered = (...reports: readonly (readonly [summary: string, commit: string | null])[]) => {
  const log = missionLog();
  log.add(...woken(), {
    type: "plan.written",
    data: { sessionID, callID: "c", phases: [phase("credit"), next, phase("other")] },
  });
  log.add(dispatched("one", { phase: "credit" }));
  for (const [summary, commit] of reports) {
    const task = log.state().tasks.at(-1)!;
    if (task.ends.length > 0) log.add({ type: "task.reopened", data: { sessionID, callID: "r", taskID: task.taskID } });
    const fact = taskEnded(log.state().tasks.at(-1)!, "completed", undefined, commit);
    if (fact.type !== "task.ended") throw new Error("no end");
    const files = [{ path: "credit.js", how: "changed" as const, insertions: 4, deletions: 1 }];
    const evidence = {
      diffStat: { files: 1, insertions: 4, deletions: 1 },
      files,
      checks: [],
      contrast: null,
      reviews: [],
    };
    log.add({ ...fact, data: { ...fact.data, summary, evidence } });
  }
  return log.state();
};
const told = (state: ReturnType<typeof delivered>, of = next) => handoverOf(state, of, null, new Map());

test("after a correction a phase is told by all that landed of it, the newest last; control: one report stands alone", () => {
  const state = delivered(["There is `creditNote()`.", first], ["total rounds the magnitude.", second]);
  for (const of of [next, phase("other")]) {
    const text = told(state, of);
    expect(text).toContain(
      "## Phase credit (phase credit, task_one)\nIt was completed in 2 steps, together 1 file +8 -2.",
    );
    expect(text).toMatch(
      new RegExp(
        `### Landed as ${first}\n<data[^]*creditNote[^]*### Landed as ${second}\n<data[^]*rounds the magnitude`,
      ),
    );
  }
  const alone = told(delivered(["There is `creditNote()`.", first]));
  expect(alone).toContain(`It was completed. It landed as ${first}, which your copy has.\n\n<data`);
  expect(alone).not.toContain("steps");
});

test("what many corrections said has a bound together; the first and the newest stay in the shortest", () => {
  const many = Array.from({ length: 20 }, () => ["x".repeat(3_900), first] as const);
  const state = delivered(["There is `creditNote()`.", first], ...many, ["The last word.", second]);
  expect(told(state).length).toBeLessThan(16_000);
  const short = told(state, phase("other"));
  expect(short.length).toBeLessThan(2_500);
  for (const text of [told(state), short]) {
    expect(text).toContain("completed in 22 steps");
    expect(text).toMatch(/There is `creditNote\(\)`\.\n<[^]*The last word\.\n</);
  }
});
