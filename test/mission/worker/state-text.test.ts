import { expect, test } from "vitest";
import { cancelLines, doneLines, endLines, planLines } from "../../../src/mission/worker/state-text.ts";
import { dispatched, type MissionLog, missionLog, phase, taskEnded, woken } from "../../harness/mission-log.ts";

/** The state of a Mission as its agent reads it between two wakes. */

const sessionID = "ses_1";
const none = new Map();
const idOf = (at: number) => `p${String(at)}`;
const begun = (count: number): MissionLog => {
  const log = missionLog();
  const phases = Array.from({ length: count }, (_, at) => phase(idOf(at)));
  log.add(...woken(), { type: "plan.written", data: { sessionID, callID: "c", phases } });
  return log;
};
const end = (log: MissionLog, at: number, summary: string, outcome: "completed" | "failed" = "completed"): void => {
  const state = log.add(dispatched(`c${at}`, { phase: idOf(at) }));
  const fact = taskEnded(state.tasks.at(-1)!, outcome);
  if (fact.type !== "task.ended") throw new Error("no end");
  log.add({ ...fact, data: { ...fact.data, summary } });
};
/** A report of so many characters, with its own beginning and end. */
const report = (at: number, length: number) => `Found ${at}: ${"x".repeat(length - 20)} end of ${at}.`;
const note = "What ends with … is cut; `task_evidence` with part outcome has all of it.";

test("a few reports are told whole, also those of phases that ended long ago", () => {
  const log = begun(9);
  for (let at = 0; at < 8; at += 1) end(log, at, report(at, 700));
  const lines = doneLines(log.state());
  expect(lines).toHaveLength(8);
  for (const [at, line] of lines.entries()) expect(line).toContain(`end of ${at}.`);
});

test("long ones share what there is: short ones stay whole, and it is said what is cut and where it is", () => {
  const log = begun(40);
  for (let at = 0; at < 40; at += 1) end(log, at, at % 4 === 0 ? report(at, 90) : report(at, 3_900));
  const [first, ...lines] = doneLines(log.state());
  expect(first).toBe(note);
  expect(lines).toHaveLength(40);
  for (const [at, line] of lines.entries()) {
    expect(line).toContain(`Found ${at}: `);
    expect(line.includes(`end of ${at}.`)).toBe(at % 4 === 0);
    if (at % 4 !== 0) expect(/x{150,}…"$/.test(line), line).toBe(true);
  }
  // Bounded, however many there are and however long.
  expect(lines.join("\n").length).toBeLessThan(6_000 + 40 * 60);
});

test("of what failed as much is told as its place allows; of what runs, whom it waits for", () => {
  const log = begun(3);
  end(log, 0, report(0, 2_500), "failed");
  log.add(dispatched("c1", { phase: idOf(1) }), dispatched("c2", { phase: idOf(2) }));
  const wait = { taskID: "task_c1", askID: "ask_1", kind: "approval", of: "squad", since: "2026-11-21T08:03:00.000Z" };
  const waits = new Map([["task_c1", wait as never]]);
  const [failed, waiting, runs] = endLines(log.state(), waits);
  expect(failed).toContain("end of 0.");
  expect(waiting).toBe("- task_c1 of p1: waits for the user's approval of the squad, since 2026-11-21 08:03 UTC");
  expect(runs).toBe("- task_c2 of p2: runs");
  expect(planLines(log.state(), waits)[1]).toContain("running; task_c1 waits for the user's approval of the squad");
  expect(endLines(log.state(), none)[1]).toBe("- task_c1 of p1: runs");
});

test("a Task of a phase that was dropped says so; control: one of a phase in the plan", () => {
  const log = begun(2);
  end(log, 0, report(0, 50), "failed");
  end(log, 1, report(1, 50), "failed");
  log.add({ type: "plan.written", data: { sessionID, callID: "d", phases: [phase(idOf(1))] } });
  const [dropped, planned] = endLines(log.state(), none);
  expect(dropped).toMatch(/^- task_c0 of p0 \(dropped from the plan\): failed; /);
  expect(planned).toMatch(/^- task_c1 of p1: failed; /);
});

test("what is told in full behind it is not told twice; control: what was read before is told", () => {
  const log = begun(3);
  end(log, 0, report(0, 500));
  end(log, 1, report(1, 500));
  end(log, 2, report(2, 500), "failed");
  const fresh = new Set(["task_c1", "task_c2"]);
  const [read, unread] = doneLines(log.state(), fresh);
  expect(read).toContain("end of 0.");
  expect(unread).toBe('- p1 "Phase p1": task_c1; told below');
  expect(endLines(log.state(), none, fresh)).toEqual(["- task_c2 of p2: failed; told below"]);
  expect(endLines(log.state(), none)[0]).toContain("end of 2.");
});

test("why the user cancelled a Task is told as their words, also once its phase is done by another", () => {
  const log = begun(1);
  const cancelled = (at: number, by: object) => {
    const fact = taskEnded(log.add(dispatched(`c${at}`, { phase: idOf(0) })).tasks.at(-1)!, "cancelled");
    if (fact.type !== "task.ended") throw new Error("no end");
    const error = "Cancelled by cli: 007 is a product code, keep it";
    return log.add({ ...fact, data: { ...fact.data, error, ...by } });
  };
  const before = log.state().words;
  const state = cancelled(0, { cancelledByUser: { reason: "007 is a product code, keep it" } });
  expect(endLines(state, none)).toEqual(["- task_c0 of p0: cancelled; by the user"]);
  // Whoever judges the whole has to hear it.
  expect([state.words > before, state.words]).toEqual([true, state.version]);
  // Control: the Mission's own.
  expect(cancelled(1, {}).words).toBe(state.words);
  expect(endLines(log.state(), none)[1]).toContain("cancelled; Cancelled by cli");
  end(log, 2, "Done otherwise.");
  expect(cancelLines(log.state())).toEqual(["- task_c0 of p0: 007 is a product code, keep it"]);
  expect(cancelLines(log.state(), new Set(["task_c0"]))).toEqual([]);
});

test("a phase that was corrected is told by all that it delivered, also where only the correction is told below", () => {
  const log = begun(1);
  log.add(dispatched("c0", { phase: idOf(0) }));
  const fact = (summary: string, commit: string) => {
    const made = taskEnded(log.state().tasks.at(-1)!, "completed", undefined, commit.repeat(40));
    if (made.type !== "task.ended") throw new Error("no end");
    const diffStat = { files: 1, insertions: 5, deletions: 2 };
    return {
      ...made,
      data: { ...made.data, summary, evidence: { diffStat, checks: [], contrast: null, reviews: [] } },
    };
  };
  log.add(fact("There is `creditNote()`.", "a"));
  log.add({ type: "task.reopened", data: { sessionID, callID: "s", taskID: "task_c0" } });
  log.add(fact("It rounds the magnitude.", "b"));
  expect(doneLines(log.state())).toEqual([
    '- p0 "Phase p0": task_c0; landed bbbbbbbbbbbb; +10 -4; it said: "There is `creditNote()`."; then it said: "It rounds the magnitude."',
  ]);
  expect(doneLines(log.state(), new Set(["task_c0"]))).toEqual([
    '- p0 "Phase p0": task_c0; landed bbbbbbbbbbbb; told below; +10 -4; it said: "There is `creditNote()`."',
  ]);
});
