import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { MissionSummary } from "../../../src/protocol/mission/status.ts";
import { at, post, send } from "../../harness/double/hostile-text.ts";
import {
  dispatch,
  eventsOf,
  finish,
  missionOf,
  openStage,
  plan,
  type Stage,
  turns,
  wake,
} from "../../harness/double/missions.ts";
import { until } from "../../harness/project.ts";
import { type Receiver, startReceiver } from "../../harness/receiver.ts";

/** Where a Mission stands, as callers see it: in its record, in lists, as events and by webhook. */

let stage: Stage;
let receiver: Receiver;
beforeAll(async () => {
  receiver = await startReceiver();
  stage = await openStage({}, { webhooks: { allow: ["127.0.0.1"] } });
  const events = ["mission.stalled", "mission.waiting", "mission.paused"];
  await send(stage.service.url, "/webhook", { method: "POST", body: { url: receiver.url, events } });
});
afterAll(async () => {
  await stage[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
});

const elementOf = async (directory: string, missionID: string): Promise<MissionSummary | undefined> =>
  ((await send(stage.service.url, at("/missions", directory))).body as unknown as MissionSummary[]).find(
    (one) => one.missionID === missionID,
  );
const stands = (directory: string, missionID: string, state: MissionSummary["state"]) =>
  until(
    () => missionOf(stage.service.url, directory, missionID),
    (mission) => mission.state === state,
  );
const countOf = async (directory: string, missionID: string, type: string) =>
  (await eventsOf(stage.service.url, directory, missionID)).filter((event) => event.type === type).length;
const told = (missionID: string) =>
  receiver.received.flatMap(({ message }) =>
    "missionID" in message.data && message.data.missionID === missionID ? [message] : [],
  );

describe("a standstill", () => {
  test("is a state with its reason, an event and a webhook, once; a wake ends it, the next one is told again", async () => {
    stage.play("still", { mission: turns({ calls: [plan("a")] }, { text: "Enough." }, { text: "No." }) });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { missionID: "still", text: "[still]" });
    const mission = await stands(directory, missionID, "stalled");
    const reason = "Its agent stopped without saying how the Mission ends, and nothing runs";
    expect(mission).toMatchObject({ stateReason: reason, outcome: null, now: null, pendingCount: 0 });
    expect(mission.progress).toMatchObject({ phases: { total: 1, done: 0, running: 0, failed: 0 } });
    expect(await elementOf(directory, missionID)).toMatchObject({ state: "stalled", stateReason: reason, error: null });
    await until(
      () => Promise.resolve(told(missionID)),
      (messages) => messages.length === 1,
    );
    expect(told(missionID)).toMatchObject([{ type: "mission.stalled", data: { reason } }]);
    expect(await countOf(directory, missionID, "mission.stalled")).toBe(1);
    // Whoever waits for its end has it.
    const begun = performance.now();
    await send(url, at(`/mission/${missionID}/status?wait=20`, directory));
    expect(performance.now() - begun).toBeLessThan(10_000);
    await wake(url, directory, { missionID, text: "Well?" });
    await until(
      () => countOf(directory, missionID, "mission.stalled"),
      (count) => count === 2,
    );
  });

  test("of an agent that could not go on has its error", async () => {
    stage.play("broken", { mission: () => ({ fail: { status: 401, message: "no such key" } }) });
    const directory = stage.project();
    const { missionID } = await wake(stage.service.url, directory, { text: "[broken]" });
    const mission = await stands(directory, missionID, "stalled");
    expect(mission.stateReason).toContain(mission.error?.slice(0, 40));
    expect(await elementOf(directory, missionID)).toMatchObject({ state: "stalled", error: mission.error });
  });
});

test("one that waits for a time says until when, and one that has said how it ends is neither", async () => {
  stage.play("later", { mission: () => ({ calls: [finish("waiting", "Later.", { wakeInMinutes: 60 })] }) });
  stage.play("blocked", { mission: () => ({ calls: [finish("blocked", "A key is missing.")] }) });
  const directory = stage.project();
  const { url } = stage.service;
  await wake(url, directory, { missionID: "later", text: "[later]" });
  const later = await stands(directory, "later", "waiting");
  expect(later).toMatchObject({ stateReason: "Later.", outcome: "waiting" });
  await until(
    () => Promise.resolve(told("later")),
    (messages) => messages.length === 1,
  );
  expect(told("later")).toMatchObject([
    { type: "mission.waiting", data: { reason: "Later.", wakeAt: later.finished?.wakeAt } },
  ]);
  await wake(url, directory, { missionID: "blocked", text: "[blocked]" });
  await stands(directory, "blocked", "blocked");
  expect(await elementOf(directory, "blocked")).toMatchObject({
    state: "blocked",
    stateReason: "A key is missing.",
    outcome: "blocked",
  });
  expect(told("blocked")).toEqual([]);
});

test("a cap that is reached pauses it: in its record, in the list, and with what was spent", async () => {
  stage.play("cap", {
    mission: turns({ calls: [plan("a")] }, { calls: [{ tool: "task_status", input: {} }] }),
  });
  const directory = stage.project();
  const { missionID } = await wake(stage.service.url, directory, { text: "[cap]", budget: { maxTokens: 200 } });
  const mission = await stands(directory, missionID, "paused");
  expect(mission.stateReason).toMatch(/budget is used up: \d+ of 200 tokens/);
  expect(mission.budgetSpent).toMatchObject({ maxTokens: mission.budgetUsed.maxTokens, maxCostUSD: null });
  expect(mission.usage.costUSD).toBeNull();
  expect(mission.budgetReserved).toMatchObject({ maxTokens: 0 });
  expect(await elementOf(directory, missionID)).toMatchObject({ state: "paused" });
  await until(
    () => Promise.resolve(told(missionID)),
    (messages) => messages.some(({ type }) => type === "mission.paused"),
  );
});

describe("with Tasks", () => {
  test("it waits for them, is asked where one of them asks; its plan is theirs after an abort", async () => {
    stage.play("tasks", {
      mission: turns({ calls: [plan("a"), dispatch("a", "Ask. [tasks]")] }, { text: "Runs." }),
      task: () => ({ calls: [{ tool: "ask", input: { question: "Red or blue?" } }] }),
    });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "[tasks]" });
    const asking = await stands(directory, missionID, "asking");
    expect(asking).toMatchObject({ stateReason: "One of its Tasks asks", plan: [{ state: "running" }] });
    expect(await elementOf(directory, missionID)).toMatchObject({ state: "asking" });
    await post(url, `/mission/${missionID}/abort`, directory, { cascade: true, reason: "enough" });
    const aborted = await until(
      () => missionOf(url, directory, missionID),
      ({ status }) => status === "inactive",
    );
    expect(aborted).toMatchObject({
      state: "aborted",
      stateReason: "Aborted by api: enough",
      plan: [{ state: "cancelled" }],
    });
    // It has not heard of that end.
    expect(await countOf(directory, missionID, "task.ended")).toBe(0);
  });

  test("its plan is theirs while its agent is busy", async () => {
    stage.play("busy", {
      mission: (turn) =>
        turn === 0
          ? { calls: [plan("a"), dispatch("a", "Nothing. [busy]")] }
          : { text: "…", hold: true, calls: [{ tool: "task_status", input: {} }] },
    });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "[busy]" });
    const done = await until(
      () => missionOf(url, directory, missionID),
      ({ status, taskCounts }) => taskCounts.total === 1 && status === "inactive",
    );
    expect(done).toMatchObject({
      state: "working",
      plan: [{ state: "done" }],
      progress: { phases: { total: 1, done: 1, running: 0 } },
    });
    expect(await countOf(directory, missionID, "task.ended")).toBe(0);
    await post(url, `/mission/${missionID}/abort`, directory, {});
    stage.provider.release();
  });
});
