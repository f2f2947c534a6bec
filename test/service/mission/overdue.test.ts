import { afterAll, beforeAll, expect, test } from "vitest";
import {
  dispatch,
  eventsOf,
  finish,
  missionOf,
  openStage,
  plan,
  restOf,
  type Say,
  type Stage,
  taskIn,
  turns,
  wake,
} from "../../harness/double/missions.ts";
import { until } from "../../harness/project.ts";

/** A Task that takes long wakes its Mission at the time that its agent set; one that ends before does not. */

let stage: Stage;
let skipped = 0;
beforeAll(async () => {
  stage = await openStage({}, {}, undefined, () => new Date(Date.now() + skipped));
});
afterAll(() => stage[Symbol.asyncDispose]());

test("its agent hears of it once, and may set another time", async () => {
  let free = () => {};
  const held = new Promise<void>((resolve) => {
    free = resolve;
  });
  const told: string[] = [];
  const hear =
    (...calls: { tool: string; input: unknown }[]): Say =>
    (_turn, _request, newest) => {
      told.push(newest);
      return calls.length === 0 ? { text: "Waiting." } : { calls };
    };
  const look: Say = (_turn, _request, newest) => {
    told.push(newest);
    const task = taskIn(newest);
    return { calls: [{ tool: "task_status", input: { tasks: [task], lookInMinutes: 60 } }] };
  };
  stage.play("long", {
    mission: turns(
      {
        calls: [plan("a", "b"), dispatch("a", "Long. [long]", { lookInMinutes: 30 }), dispatch("b", "Quick. [quick]")],
      },
      { text: "They run." },
      hear(),
      look,
      hear(),
      hear(),
      hear(finish()),
    ),
    task: turns(async () => {
      await held;
      return { text: "Done." };
    }),
  });
  stage.play("quick", { mission: turns(), task: turns({ text: "Quick." }) });
  const { url } = stage.service;
  const directory = stage.project();
  const { missionID } = await wake(url, directory, { text: "[long]" });
  const overdue = async () =>
    (await eventsOf(url, directory, missionID)).filter(({ type }) => type === "task.overdue").length;
  await until(
    () => missionOf(url, directory, missionID),
    ({ tasks, agentStatus }) =>
      agentStatus === "inactive" && tasks.some(({ lifecycleStatus }) => lifecycleStatus === "completed"),
  );
  expect(await overdue()).toBe(0);
  // What is due at a time is looked for at least this often.
  skipped += 31 * 60_000;
  await until(overdue, (times) => times === 1, 20_000);
  await until(
    () => missionOf(url, directory, missionID),
    ({ agentStatus, state }) => agentStatus === "inactive" && state === "waiting",
  );
  const notice = told.find((text) => text.includes("has not ended by the time")) ?? "";
  expect(notice).toContain('Task a", has not ended'.replace("Task a", "Phase a"));
  expect(notice).toMatch(/So far \d+ model calls, \d+ tokens/);
  skipped += 61 * 60_000;
  await until(overdue, (times) => times === 2, 20_000);
  free();
  const mission = await restOf(url, directory, missionID);
  expect(mission.finished?.outcome).toBe("done");
  expect(await overdue()).toBe(2);
});
