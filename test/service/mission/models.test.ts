import { afterAll, beforeAll, expect, test } from "vitest";
import { send } from "../../harness/double/hostile-text.ts";
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

/** Models by role: the Mission's agent, its Tasks, and their reviewers. */

let stage: Stage;
beforeAll(async () => {
  stage = await openStage(
    {},
    {},
    ["large", "lead", "work", "judge", "next"].map((id) => ({ id, contextWindow: 100_000 })),
  );
});
afterAll(() => stage[Symbol.asyncDispose]());

const play = (name: string) => {
  const write = { calls: [{ tool: "write", input: { path: "made.txt", content: "made\n" } }] };
  stage.play(name, {
    mission: turns(
      { calls: [plan("a"), dispatch("a", `Write made.txt. [${name}]`)] },
      { text: "Runs." },
      { calls: [finish()] },
    ),
    task: turns(write),
  });
};

/** The models asked since, of each role. */
const askedIn = async (name: string, body: Record<string, unknown>) => {
  play(name);
  const directory = stage.project({ "a.txt": "one\n" });
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: `[${name}]`, ...body });
  const mission = await restOf(url, directory, missionID);
  expect(mission.finished?.outcome, JSON.stringify(mission.tasks)).toBe("done");
  const [task] = mission.tasks;
  const { body: events } = await send(url, `/task/${task?.taskID}/events?format=json&limit=1000`);
  const review = (events as unknown as { events: { type: string; data: Record<string, unknown> }[] }).events.find(
    ({ type, data }) => type === "session.started" && data["purpose"] === "review",
  );
  return { directory, missionID, models: [mission.models, task?.model, review?.data["model"]] };
};

test("each role has the model that the wake names for it, and keeps it until another wake; control: without, one for all", async () => {
  const models = { agent: "mock/lead", tasks: "mock/work", review: "mock/judge" };
  const { directory, missionID, models: asked } = await askedIn("roles", { models });
  expect(asked).toEqual([models, "mock/work", "mock/judge"]);
  const { url } = stage.service;
  await wake(url, directory, { missionID, text: "Another.", models: { review: "mock/next" } });
  expect((await missionOf(url, directory, missionID)).models).toEqual({ ...models, review: "mock/next" });

  const one = await askedIn("one", { model: "mock/next", models: { agent: "mock/lead" } });
  expect(one.models).toEqual([{ agent: "mock/lead", tasks: "mock/next", review: null }, "mock/next", "mock/next"]);
  const none = await askedIn("none", {});
  expect(none.models).toEqual([{ agent: "mock/large", tasks: null, review: null }, "mock/large", "mock/large"]);
});

test("a model that cannot be called is refused at the door", async () => {
  const path = `/mission/wake?directory=${encodeURIComponent(stage.project())}`;
  const answer = await send(stage.service.url, path, {
    method: "POST",
    body: { text: "[door]", models: { review: "nobody/none" } },
  });
  expect(answer.status, JSON.stringify(answer.body)).toBeGreaterThanOrEqual(400);
});
