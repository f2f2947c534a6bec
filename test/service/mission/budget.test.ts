import { expect, test } from "vitest";
import { until } from "../../harness/project.ts";
import { send } from "../../harness/double/hostile-text.ts";
import {
  dispatch,
  eventsOf,
  finish,
  missionOf,
  openStage,
  plan,
  restOf,
  turns,
  wake,
} from "../../harness/double/missions.ts";

/**
 * Minutes of a Mission's budget are of work: its agent's and its Tasks', added up. Tokens and the rest:
 * mission.test.ts.
 */

const shell = (command: string) => ({ calls: [{ tool: "shell", input: { command } }] });

test("minutes are shared out, counted by what was worked, and at their end nothing goes on", {
  timeout: 90_000,
}, async () => {
  await using stage = await openStage({}, { limits: { reservePercent: 0 } });
  stage.play("time", {
    mission: turns(
      { calls: [plan("a", { id: "b", after: ["a"] })] },
      { calls: [dispatch("a", "Short. [time]")] },
      { calls: [dispatch("b", "Long. [time]")] },
      // Its own answers take time, too: the rest of it.
      { calls: [{ tool: "task_status", input: {} }], latencyMs: 1000 },
      { calls: [finish("blocked", "With more time.")] },
    ),
    task: (turn, { first }) =>
      turn === 0 ? shell(first.startsWith("Short") ? "sleep 1; echo x > a.txt" : "sleep 60") : { text: "Done." },
  });
  const directory = stage.project();
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: "[time]", budget: { maxMinutes: 0.3 } });
  const own = await until(
    () => eventsOf(url, directory, missionID),
    (events) => events.some(({ type }) => type === "mission.paused"),
    60_000,
  );
  const stopped = await missionOf(url, directory, missionID);
  const of = (type: string) => own.filter((event) => event.type === type).map(({ data }) => data);
  const [first, second] = of("task.dispatched").map(({ reserved }) => reserved as { maxMinutes: number });
  const [one = 0, two = 0] = [first?.maxMinutes, second?.maxMinutes];
  // Half of what is left for each of two phases, then all of it.
  expect(one).toBeLessThan(0.15);
  expect(two).toBeGreaterThan(one);
  const [short, long] = of("task.ended").map(({ minutes }) => Number(minutes));
  expect(short).toBeGreaterThan(1 / 60);
  expect(short).toBeLessThan(one);
  expect(long).toBeGreaterThanOrEqual(two);
  expect(stopped.tasks).toMatchObject([
    { lifecycleStatus: "completed", budget: { maxMinutes: one } },
    { lifecycleStatus: "failed", errorInfo: { code: "budget_reached" } },
  ]);
  expect(of("mission.paused")).toMatchObject([{ name: "maxMinutes", cap: 0.3 }]);
  expect(stopped).toMatchObject({ finished: null, agentStatus: "inactive", status: "inactive" });
  expect(stopped.budgetUsed.maxMinutes).toBeGreaterThanOrEqual(0.3);
  // Sleep costs nothing: what is used stays as it is.
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  await send(url, `/mission/${missionID}/title`, { method: "PATCH", body: { title: "Longer" } });
  expect((await missionOf(url, directory, missionID)).budgetUsed).toEqual(stopped.budgetUsed);

  await wake(url, directory, { missionID, text: "More time.", budget: { maxMinutes: 10 } });
  expect(await restOf(url, directory, missionID)).toMatchObject({
    finished: { summary: "With more time." },
    budget: { maxMinutes: 10 },
  });
});
