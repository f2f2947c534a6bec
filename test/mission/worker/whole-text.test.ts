import { expect, test } from "vitest";
import { waitsIn } from "../../../src/domain/mission/now.ts";
import type { EventData } from "../../../src/protocol/event/event.ts";
import { planText } from "../../../src/mission/tool/plan-text.ts";
import { cancelLines, endLines } from "../../../src/mission/worker/state-text.ts";
import { wholeLines } from "../../../src/mission/worker/whole-text.ts";
import { dispatched, missionLog, phase, taskEnded, woken } from "../../harness/mission-log.ts";

/** What the agent of a Mission reads of the whole between two wakes. */

const sessionID = "ses_1";
const none = waitsIn([]);
const commit = "2".repeat(40);
const merge = { branch: "sortie/m", commit, into: "main" };
const judges = { commit, base: null, heard: 1 };

/** One phase is done. */
const delivered = () => {
  const log = missionLog("branch");
  log.add(...woken(), { type: "plan.written", data: { sessionID, callID: "p", phases: [phase("a")] } });
  log.add(taskEnded(log.add(dispatched("work")).tasks.at(-1)!, "completed", undefined, commit));
  return log;
};
const end = (log: ReturnType<typeof delivered>, more: Partial<EventData["task.ended"]>) => {
  const fact = taskEnded(log.state().tasks.at(-1)!, more.outcome ?? "completed");
  if (fact.type !== "task.ended") throw new Error("no end");
  return log.add({ ...fact, data: { ...fact.data, ...more } });
};

test("Tasks of the service's own are no phase's, and are said to do what they do; control: the work of a phase", () => {
  const log = delivered();
  log.add(dispatched("judge", { phase: "verdict", judges }), dispatched("merge", { phase: "merge", merge }));
  const wait = { taskID: "task_merge", askID: "ask_1", kind: "approval", of: "landing", since: "2026-11-21T08:03:00Z" };
  expect(wholeLines(log.state(), new Map([["task_merge", wait as never]]))).toEqual([
    "- task_judge, which judges the whole: runs",
    "- task_merge, which merges sortie/m into main: waits for the user's approval of the landing, since 2026-11-21 08:03 UTC",
  ]);
  const reason = "Not today.";
  const state = end(log, { outcome: "cancelled", error: "Cancelled by api: Not today.", cancelledByUser: { reason } });
  expect(wholeLines(state, none)[1]).toBe(
    "- task_merge, which merges sortie/m into main: cancelled; Cancelled by api: Not today.",
  );
  expect(cancelLines(state)).toEqual(['- task_merge, "Task merge": Not today.']);
  expect(endLines(state, none)).toEqual([]);
  log.add(dispatched("other", { phase: "b" }));
  expect(endLines(log.state(), none)).toEqual(["- task_other of b (dropped from the plan): runs"]);
});

test("what the newest verdict found stays word for word, and task_status has it; control: nothing of one that accepted", () => {
  const log = delivered();
  log.add(dispatched("judge", { phase: "verdict", judges }));
  const notes = `There is no CHANGELOG.md.\n\n## What you said\n- ${"x".repeat(2_000)} and the end.`;
  const state = end(log, { verdict: { verdict: "rejected", notes } });
  const [line = "", ...more] = wholeLines(state, none);
  expect(more).toEqual([]);
  expect(line).toMatch(
    /^- The newest verdict, of task_judge on 2{12}: rejected; it said: "There is no CHANGELOG\.md\. .* and the end\."$/,
  );
  expect(JSON.parse(planText(state, [], []))).toMatchObject({ verdict: { verdict: "rejected", notes, commit } });
  expect(wholeLines(state, none, new Set(["task_judge"]))).toEqual([
    "- The newest verdict, of task_judge on 222222222222: rejected; told below",
  ]);
  log.add(dispatched("again", { phase: "verdict", judges }));
  const accepted = end(log, { verdict: { verdict: "accepted", notes: "All is there." } });
  expect(wholeLines(accepted, none)).toEqual([]);
  expect(JSON.parse(planText(accepted, [], []))).not.toHaveProperty("verdict");
});

test("the user's checks that were red say how; control: not those that passed", () => {
  const log = { sha256: "0".repeat(64), bytes: 0 };
  const result = { checkID: "c", required: true, reason: null, exitCode: 1, durationMs: 1, tail: "", log };
  const results = [
    { ...result, name: "npm test", state: "failed" as const, tail: `${"x".repeat(900)}\nexpected 3, got 4\n` },
    { ...result, name: "lint", state: "passed" as const },
  ];
  const data = { sessionID, callID: "v", of: "acceptance" as const, commit, results };
  const [line, ...more] = wholeLines(delivered().add({ type: "mission.verified", data }), none);
  expect(line).toMatch(/^- The user's check "npm test", on 2{12}: failed; at the end: "x{500,600} expected 3, got 4"$/);
  expect(more).toEqual([]);
});
