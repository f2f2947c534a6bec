import { expect, test } from "vitest";
import { missionStatusOf } from "../../../src/domain/mission/status.ts";
import { noUsage } from "../../../src/domain/state/stream.ts";
import type { TaskSummary } from "../../../src/protocol/task/status.ts";
import { dispatched, missionLog, phase, replied, taskEnded, woken } from "../../harness/mission-log.ts";

test("what is reserved for a Task is free once that has ended, also where its Mission was aborted and has not heard of it", () => {
  const log = missionLog();
  log.add(...woken({ maxSteps: 100 }), dispatched("one", { reserved: { maxSteps: 20 } }));
  const state = log.add({
    type: "mission.aborted",
    data: { sessionID: "ses_1", surface: "api", reason: "", cascade: false },
  });
  const row = (lifecycleStatus: "active" | "completed") =>
    ({
      taskID: "task_one",
      lifecycleStatus,
      status: lifecycleStatus === "active" ? "running" : "inactive",
      attempt: 1,
      pending: [],
      pendingCount: 0,
      now: null,
      usage: { ...noUsage, modelCalls: 3 },
      git: { landedCommit: null },
    }) as unknown as TaskSummary;
  const budgetOf = (task: TaskSummary) => {
    const { budgetUsed, budgetSpent, budgetReserved } = missionStatusOf(state, [task], {
      mayProduce: false,
      now: new Date(0),
    });
    return [budgetUsed.maxSteps, budgetSpent.maxSteps, budgetReserved.maxSteps];
  };
  const minutes = (unheard: number) =>
    missionStatusOf(state, [row("completed")], {
      mayProduce: false,
      now: new Date(0),
      unheard: new Map([["task_one", unheard]]),
    });
  expect(minutes(7)).toMatchObject({ budgetSpent: { maxMinutes: 7 }, budgetUsed: { maxMinutes: 7 } });
  expect(budgetOf(row("completed"))).toEqual([3, 3, 0]);
  // Control: while it runs it may still use the rest.
  expect(budgetOf(row("active"))).toEqual([20, 3, 17]);
});

test("a report is the last word until a person has a Task go on, and stands again where that ends without a word", () => {
  const log = missionLog();
  const status = () => missionStatusOf(log.state(), [], { mayProduce: false, now: new Date(0) });
  const report = { outcome: "done" as const, summary: "All of it.", wakeAt: null };
  const said = () =>
    log.add(replied(log.state(), { finish: "calls", calls: ["f"] }), {
      type: "mission.finished",
      data: { sessionID: "ses_1", callID: `call_${log.events.length}`, ...report, verified: true },
    });
  const goesOn = (taskID: string) => log.add({ type: "task.reopened", data: { sessionID: "ses_1", taskID } });
  const stands = { outcome: "done", verified: true, finished: report };
  const isOver = { outcome: null, verified: null, finished: null };
  log.add(
    ...woken(),
    { type: "plan.written", data: { sessionID: "ses_1", callID: "c", phases: [phase("a")] } },
    dispatched("one"),
  );
  // One of a phase that was dropped, which still runs when its agent reports.
  log.add(dispatched("two", { phase: "dropped" }));
  log.add(taskEnded(log.state().tasks[0]!, "completed"));
  said();
  expect(status()).toMatchObject(stands);
  log.add(taskEnded(log.state().tasks[1]!, "cancelled"));
  expect(status()).toMatchObject(stands);

  goesOn("task_one");
  expect(status()).toMatchObject(isOver);
  log.add(taskEnded(log.state().tasks[0]!, "completed"));
  expect(status()).toMatchObject(isOver);
  said();
  expect(status()).toMatchObject(stands);

  // Withdrawn again, of which its agent hears nothing.
  goesOn("task_two");
  expect(status()).toMatchObject(isOver);
  log.add(taskEnded(log.state().tasks[1]!, "cancelled"));
  expect(status()).toMatchObject(stands);
});
