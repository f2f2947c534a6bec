import { afterAll, beforeAll, expect, test } from "vitest";
import { post, send } from "../../harness/double/hostile-text.ts";
import {
  dispatch,
  finish,
  missionOf,
  openStage,
  plan,
  restOf,
  type Stage,
  taskOf,
  turns,
  wake,
} from "../../harness/double/missions.ts";
import { until } from "../../harness/project.ts";
import { startReceiver, verified } from "../../harness/receiver.ts";

/** What a Mission has as a Task has it: priority, metadata, an address that is told. */

let stage: Stage;
beforeAll(async () => {
  stage = await openStage({}, { webhooks: { allow: ["127.0.0.1"] } });
});
afterAll(() => stage[Symbol.asyncDispose]());

const listed = async (query: string) => {
  const { status, body } = await send(stage.service.url, `/missions?${query}`);
  expect(status, JSON.stringify(body)).toBe(200);
  return (body as unknown as { missionID: string }[]).map(({ missionID }) => missionID);
};
const refused = async (body: Record<string, unknown>) => {
  const path = `/mission/wake?directory=${encodeURIComponent(stage.project())}`;
  const answer = await send(stage.service.url, path, { method: "POST", body: { text: "[door]", ...body } });
  return [answer.status, (answer.body["issues"] as { path: string }[] | undefined)?.[0]?.path];
};

test("priority and metadata are kept until a wake names others, and lists ask for them; its Tasks have its priority", async () => {
  stage.play("kept", {
    mission: turns(
      { calls: [plan("a", "b"), dispatch("a", "Say a. [kept]"), dispatch("b", "Say b. [kept]", { priority: "low" })] },
      { text: "Both run." },
    ),
  });
  const { url } = stage.service;
  const directory = stage.project();
  const metadata = { ticket: "A-1", deep: { of: ["it"] } };
  const { missionID } = await wake(url, directory, { text: "[kept]", priority: "high", metadata });
  await wake(url, stage.project(), { missionID: "other", text: "[none]", metadata: { ticket: "B" } });
  const mission = await missionOf(url, directory, missionID);
  expect(mission).toMatchObject({ priority: "high", metadata });
  expect(mission).not.toHaveProperty("callbackURL");
  expect(await listed("priority=high")).toEqual([missionID]);
  expect(await listed("priority=normal")).toEqual(["other"]);
  expect(await listed("metadata.ticket=A-1")).toEqual([missionID]);
  expect(await listed(`metadata.deep=${encodeURIComponent('{"of":["it"]}')}&priority=high`)).toEqual([missionID]);
  expect(await listed("metadata.ticket=A-1&priority=low")).toEqual([]);

  const { tasks } = await until(
    () => missionOf(url, directory, missionID),
    (now) => now.tasks.length === 2,
  );
  expect(tasks.map(({ priority }) => priority).toSorted()).toEqual(["high", "low"]);

  await wake(url, directory, { missionID, text: "Go on." });
  expect(await missionOf(url, directory, missionID)).toMatchObject({ priority: "high", metadata });
  await wake(url, directory, { missionID, text: "Go on.", priority: "low", metadata: { ticket: "C" } });
  expect(await missionOf(url, directory, missionID)).toMatchObject({ priority: "low", metadata: { ticket: "C" } });
  expect(await listed("metadata.ticket=A-1")).toEqual([]);
  expect(await listed("metadata.ticket=C&priority=low")).toEqual([missionID]);
});

test("its callbackURL is told its ends and asks, signed, not those of its Tasks, until it is taken away", async () => {
  await using receiver = await startReceiver();
  stage.play("told", {
    mission: turns(
      { calls: [plan("a"), dispatch("a", "Say a. [told]")] },
      { text: "Runs." },
      { calls: [finish("blocked", "A key is missing.")] },
      { calls: [finish("blocked", "Still.")] },
      { calls: [finish("blocked", "And still.")] },
    ),
  });
  const { url } = stage.service;
  const directory = stage.project();
  const callbackURL = `${receiver.url}/hook?token=t0ken-of-missions`;
  const { missionID } = await wake(url, directory, { text: "[told]", callbackURL, metadata: { ticket: "A-1" } });
  const [first] = await receiver.got(1);
  const { body } = await send(url, "/webhook/secret", { method: "POST" });
  expect(first?.path).toBe("/hook?token=t0ken-of-missions");
  expect(verified(String(body["secret"]), first!)).toMatchObject({
    type: "mission.finished",
    data: { missionID, outcome: "blocked", summary: "A key is missing.", metadata: { ticket: "A-1" } },
  });
  const mission = await missionOf(url, directory, missionID);
  expect(mission.callbackURL).toBe(`${receiver.url}/hook`);
  expect((await taskOf(url, mission.tasks[0]?.taskID ?? "")).callbackURL).toBeUndefined();
  const at = `directory=${encodeURIComponent(directory)}`;
  const events = await send(url, `/mission/${missionID}/events?${at}&format=json&after=0`);
  expect(JSON.stringify([mission, events.body])).not.toContain("t0ken");

  // Another address takes its place, at once.
  await wake(url, directory, { missionID, text: "On.", callbackURL: `${receiver.url}/other` });
  expect((await receiver.got(2))[1]?.path).toBe("/other");
  await wake(url, directory, { missionID, text: "On.", callbackURL: null });
  const last = await restOf(url, directory, missionID);
  expect(last.finished?.summary).toBe("And still.");
  expect(last).not.toHaveProperty("callbackURL");
  expect(receiver.received).toHaveLength(2);
});

test("whoever is told of what it asks is told nothing of a plan that was approved with a person's change of it", async () => {
  await using receiver = await startReceiver();
  stage.play("edited", { mission: turns({ calls: [plan("a")] }, { text: "So?" }, { text: "Begun." }) });
  const { url } = stage.service;
  const directory = stage.project();
  const callbackURL = `${receiver.url}/hook`;
  const { missionID } = await wake(url, directory, { text: "[edited]", callbackURL, approve: ["plan"] });
  const typesIn = async (count: number) =>
    (await receiver.got(count)).map(({ body }) => (JSON.parse(body) as { type: string }).type);
  expect(await typesIn(1)).toEqual(["mission.asked"]);
  const change = async (objective: string, more: object) => {
    const { planRevision: revision } = await missionOf(url, directory, missionID);
    const phases = [{ id: "a", title: "Phase a", objective }];
    return (await post(url, `/mission/${missionID}/plan`, directory, { phases, revision, ...more })).status;
  };
  // Control: one that is asked about anew is told again.
  expect(await change("More.", {})).toBe(200);
  expect(await typesIn(2)).toEqual(["mission.asked", "mission.asked"]);
  expect(await change("Most.", { approve: true })).toBe(200);
  await until(
    () => missionOf(url, directory, missionID),
    ({ state }) => state === "stalled",
  );
  expect(await typesIn(3)).toEqual(["mission.asked", "mission.asked", "mission.stalled"]);
});

test("what cannot be kept is refused, and nothing is written", async () => {
  expect(await refused({ priority: "urgent" })).toEqual([400, "body.priority"]);
  expect(await refused({ metadata: { a: "x".repeat(17_000) } })).toEqual([400, "body.metadata"]);
  expect(await refused({ callbackURL: "http://192.0.2.1/hook" })).toEqual([400, "body.callbackURL"]);
  expect((await send(stage.service.url, "/missions?priority=urgent")).status).toBe(400);
  expect(await listed("search=door")).toEqual([]);
});
