import { expect, test } from "vitest";
import { missionStatusOf } from "../../../src/domain/mission/status.ts";
import { noUsage } from "../../../src/domain/state/stream.ts";
import type { TaskSummary } from "../../../src/protocol/task/status.ts";
import { dispatched, missionLog, woken } from "../../harness/mission-log.ts";

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
