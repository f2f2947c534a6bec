import { afterAll, beforeAll, expect, test } from "vitest";
import {
  dispatch,
  finish,
  missionOf,
  openStage,
  plan,
  restOf,
  type Stage,
  turns,
  wake,
} from "../../harness/double/missions.ts";
import { until } from "../../harness/project.ts";

/** What a Mission's agent is asked for: nothing more, once a reply gave its Tasks work. */

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage[Symbol.asyncDispose]());

/** Requests of the Mission's agent in the conversation of this marker. */
const asked = (name: string): number =>
  stage.requests.filter(({ mission, request }) => mission && request.first.includes(`[${name}]`)).length;

const phases = [plan("a", { id: "b", after: ["a"] })];
const note = { tool: "remember", input: { text: "Two phases." } };

test("a Mission of two phases costs four requests; beside calls of another kind, six as before", async () => {
  const says = { text: "The first one runs." };
  stage.play("four", {
    mission: turns(
      { calls: phases },
      { text: "a is under way.", calls: [dispatch("a", "Write a.txt. [four]")] },
      { calls: [dispatch("b", "Write b.txt. [four]")] },
      { calls: [finish()] },
    ),
  });
  stage.play("six", {
    mission: turns(
      { calls: phases },
      { calls: [dispatch("a", "Write a.txt. [six]"), note] },
      says,
      { calls: [note, dispatch("b", "Write b.txt. [six]")] },
      says,
      { calls: [finish()] },
    ),
  });
  const { url } = stage.service;
  for (const [name, requests] of [
    ["four", 4],
    ["six", 6],
  ] as const) {
    const directory = stage.project();
    const { missionID } = await wake(url, directory, { text: `Both. [${name}]` });
    const mission = await restOf(url, directory, missionID);
    expect(mission).toMatchObject({ state: "done", plan: [{ state: "done" }, { state: "done" }] });
    expect([name, asked(name)]).toEqual([name, requests]);
  }
});

test("it waits, over a restart too, and is asked again when the Task has ended", async () => {
  let free = () => {};
  const held = new Promise<void>((resolve) => {
    free = resolve;
  });
  stage.play("wait", {
    mission: turns({ calls: [plan("a")] }, { calls: [dispatch("a", "Write a.txt. [wait]")] }, { calls: [finish()] }),
    task: async () => {
      await held;
      return { text: "Done." };
    },
  });
  const directory = stage.project();
  const { missionID } = await wake(stage.service.url, directory, { text: "One. [wait]" });
  const waiting = () =>
    until(
      () => missionOf(stage.service.url, directory, missionID),
      ({ agentStatus, tasks }) => agentStatus === "inactive" && tasks[0]?.now?.kind === "model",
    );
  expect(await waiting()).toMatchObject({ state: "waiting", stateReason: expect.stringContaining("Waits for") });
  await stage.restart();
  expect(await waiting()).toMatchObject({ state: "waiting" });
  expect(asked("wait")).toBe(2);
  free();
  expect(await restOf(stage.service.url, directory, missionID)).toMatchObject({ state: "done" });
  expect(asked("wait")).toBe(3);
});
