import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { at, logOf, post, send } from "../../harness/double/hostile-text.ts";
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
  taskOf,
  turns,
  wake,
} from "../../harness/double/missions.ts";
import { until } from "../../harness/project.ts";

/** The cap over the tree, where Tasks go on after their end or get another budget. */

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage[Symbol.asyncDispose]());

/** Looks into a file as often as its request says, then answers. */
const looker: Say = (turn, { first }) =>
  turn < Number(/Look (\d+) times/.exec(first)?.[1] ?? 1)
    ? { calls: [{ tool: "read", input: { path: "a.txt", offset: turn } }] }
    : { text: "Looked." };
const reservedOf = async (directory: string, missionID: string) =>
  (await eventsOf(stage.service.url, directory, missionID)).flatMap(({ type, data }) =>
    type === "task.dispatched" || type === "task.reopened" || type === "task.reserved" ? [data["reserved"]] : [],
  );

describe("a Task that goes on after its end", () => {
  test("reserves again in the commit of that; where nothing is left it is refused, and nothing is written", async () => {
    stage.play("again", {
      mission: turns(
        { calls: [plan("a", "b")] },
        { calls: [dispatch("a", "Look 1 times. [again]", { budget: { maxSteps: 10 } })] },
        { text: "Runs." },
        { calls: [dispatch("b", "Hold. [again]", { budget: { maxSteps: 15 } })] },
      ),
      task: (turn, request, newest) =>
        request.first.includes("Hold.") ? { text: "…", hold: true } : looker(turn, request, newest),
    });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "[again]", budget: { maxSteps: 30 } });
    const { tasks } = await until(
      () => missionOf(url, directory, missionID),
      ({ taskCounts, agentStatus }) => taskCounts.total === 2 && agentStatus === "inactive",
    );
    const taskID = tasks[0]?.taskID ?? "";
    const used = tasks[0]?.usage.modelCalls ?? 0;
    const message = (text: string) => post(url, `/task/${taskID}/message`, directory, { source: "api", text });
    expect(await message("Once more.")).toMatchObject({ status: 202, body: { disposition: "restarted" } });
    // Its ten, of which some are used already; five of its agent's, fifteen of the other.
    const [, , again] = await reservedOf(directory, missionID);
    expect(again).toEqual({ maxSteps: 10 });
    const mission = await until(
      () => missionOf(url, directory, missionID),
      ({ tasks: [first], agentStatus }) => first?.lifecycleStatus !== "active" && agentStatus === "inactive",
    );
    expect(mission.budgetUsed.maxSteps).toBeLessThanOrEqual(30);
    expect(mission.budgetReserved.maxSteps).toBeGreaterThan(0);
    expect(used).toBeGreaterThan(0);
    await wake(url, directory, { missionID, text: "Less.", budget: { maxSteps: 20 } });
    await until(
      () => missionOf(url, directory, missionID),
      ({ agentStatus, state }) => agentStatus === "inactive" && state === "waiting",
    );
    const before = await logOf(url, taskID);
    const own = await eventsOf(url, directory, missionID);
    for (const refused of [await message("And again."), await post(url, `/task/${taskID}/retry`, directory, {})])
      expect(refused).toMatchObject({
        status: 409,
        body: {
          code: "budget_reached",
          message: expect.stringContaining("cap of 20 model calls"),
          details: { taskID },
        },
      });
    expect(await logOf(url, taskID)).toEqual(before);
    expect(await eventsOf(url, directory, missionID)).toEqual(own);
    expect(await taskOf(url, taskID)).toMatchObject({ status: "inactive" });
    await post(url, `/mission/${missionID}/abort`, directory, { cascade: true });
  });

  test("PATCH of one that runs is held to the cap, and reserved", async () => {
    stage.play("patch", {
      mission: turns({ calls: [plan("a")] }, { calls: [dispatch("a", "Hold. [patch]", { budget: { maxSteps: 10 } })] }),
      task: () => ({ text: "…", hold: true }),
    });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "[patch]", budget: { maxSteps: 30 } });
    const { tasks } = await until(
      () => missionOf(url, directory, missionID),
      ({ taskCounts, agentStatus }) => taskCounts.running === 1 && agentStatus === "inactive",
    );
    const taskID = tasks[0]?.taskID ?? "";
    const patch = (budget: object | null) =>
      send(url, at(`/task/${taskID}`, directory), { method: "PATCH", body: { budget } });
    for (const over of [{ maxSteps: 40 }, { maxTokens: 1000 }, null])
      expect(await patch(over)).toMatchObject({ status: 409, body: { code: "budget_reached" } });
    expect(await patch({ maxSteps: 20 })).toMatchObject({ status: 200, body: { budget: { maxSteps: 20 } } });
    expect(await reservedOf(directory, missionID)).toEqual([{ maxSteps: 10 }, { maxSteps: 20 }]);
    expect((await missionOf(url, directory, missionID)).budgetReserved.maxSteps).toBe(20);
    await post(url, `/mission/${missionID}/abort`, directory, { cascade: true });
  });
});

test("what an aborted Mission has not heard of is free again, and its minutes are counted; control: while that runs", async () => {
  const held = Promise.withResolvers<void>();
  stage.play("unheard", {
    mission: turns({
      calls: [
        plan("a", "b"),
        dispatch("a", "Look 1 times. [unheard]", { budget: { maxSteps: 8 } }),
        dispatch("b", "Hold. [unheard]", { budget: { maxSteps: 12 } }),
      ],
    }),
    task: async (turn, request, newest) => {
      if (!request.first.includes("Hold.")) return looker(turn, request, newest);
      await held.promise;
      return { text: "Held." };
    },
  });
  const directory = stage.project();
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: "[unheard]", budget: { maxSteps: 40 } });
  const now = () => missionOf(url, directory, missionID);
  const { tasks, budgetUsed } = await until(
    now,
    ({ tasks: [first], taskCounts: { total }, agentStatus }) =>
      total === 2 && first?.lifecycleStatus === "completed" && agentStatus === "inactive",
  );
  await post(url, `/mission/${missionID}/abort`, directory, {});
  const [a = "", b = ""] = tasks.map(({ taskID }) => taskID);
  // The other one may use all that is left.
  const all = { maxSteps: 40 - (budgetUsed.maxSteps - 12) };
  const patched = await send(url, at(`/task/${b}`, directory), { method: "PATCH", body: { budget: all } });
  expect(patched).toMatchObject({ status: 200, body: { budget: all } });
  const message = () => post(url, `/task/${a}/message`, directory, { source: "api", text: "Once more." });
  expect(await message()).toMatchObject({ status: 409, body: { code: "budget_reached" } });
  const { budgetSpent: before } = await now();
  held.resolve();
  await until(
    () => taskOf(url, b),
    ({ lifecycleStatus }) => lifecycleStatus === "completed",
  );
  expect((await now()).budgetSpent.maxMinutes).toBeGreaterThan(before.maxMinutes);
  expect(await message()).toMatchObject({ status: 202, body: { disposition: "restarted" } });
  expect((await reservedOf(directory, missionID)).at(-1)).toEqual({ maxSteps: 8 });
});

describe("for the Mission's agent", () => {
  test("a Task at its own limit is refused with words, or raised out of what is kept back", async () => {
    const said: string[] = [];
    stage.play("limit", {
      mission: (turn, _request, newest) => {
        said.push(newest);
        const task = taskIn(said.join("\n"));
        const message = (more: object) => ({ tool: "task_message", input: { task, text: "Go on.", ...more } });
        return (
          [
            { calls: [plan("a"), dispatch("a", "Look 6 times. [limit]", { budget: { maxSteps: 2 } })] },
            { text: "Runs." },
            { calls: [message({}), message({ budget: { maxSteps: 1 } })] },
            { calls: [message({ budget: { maxSteps: 12 } })] },
            { text: "It goes on." },
          ][turn] ?? { calls: [finish("blocked", "Enough.")] }
        );
      },
      task: looker,
    });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "[limit]", budget: { maxSteps: 40 } });
    const mission = await restOf(url, directory, missionID);
    expect(said[3]).toContain("The Task has used up its own budget of 2 model calls (maxSteps)");
    expect(said[3]).toContain("Expected budget.maxSteps beyond the 2 model calls that the Task has used, got 1");
    expect(mission.tasks).toMatchObject([{ lifecycleStatus: "completed", attempt: 2, budget: { maxSteps: 12 } }]);
    expect(await reservedOf(directory, missionID)).toEqual([{ maxSteps: 2 }, { maxSteps: 12 }]);
  });

  test("one that fails three times in the same way is told nothing more", { timeout: 60_000 }, async () => {
    const said: string[] = [];
    stage.play("same", {
      mission: (turn, _request, newest) => {
        said.push(newest);
        const message = { tool: "task_message", input: { task: taskIn(said.join("\n")), text: "Again." } };
        if (turn === 0) return { calls: [plan("a"), dispatch("a", "Look 1 times. [same]", { checks: ["false"] })] };
        if (newest.includes("is not continued again")) return { calls: [finish("blocked", newest)] };
        return newest.includes("ended failed") ? { calls: [message] } : { text: "Runs." };
      },
      task: looker,
    });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "[same]" });
    const mission = await restOf(url, directory, missionID, 50_000);
    const results = JSON.stringify(stage.requests.map(({ request }) => request.body.messages));
    expect(results).toContain(
      "The Task had ended. It continues from there with this, and you are woken when it ends again.",
    );
    expect(mission.finished?.summary).toContain("failed 3 times in a row in the same way (checks_failed)");
    expect(mission.tasks).toMatchObject([{ lifecycleStatus: "failed", attempt: 3 }]);
  });
});
