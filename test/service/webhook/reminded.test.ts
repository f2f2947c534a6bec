import { afterAll, beforeAll, expect, test } from "vitest";
import { post, send } from "../../harness/double/hostile-text.ts";
import { dispatch, missionOf, openStage, plan, type Stage, turns, wake } from "../../harness/double/missions.ts";
import { until } from "../../harness/project.ts";
import { type Receiver, startReceiver } from "../../harness/receiver.ts";

/** Whoever is asked hears of it again after an hour: of a Mission's plan, and of what its Task is to land. */

let stage: Stage;
let receiver: Receiver;
let skipped = 0;
beforeAll(async () => {
  receiver = await startReceiver();
  stage = await openStage({}, { webhooks: { allow: ["127.0.0.1"] } }, undefined, () => new Date(Date.now() + skipped));
  const body = { url: receiver.url, events: ["task.reminded", "mission.reminded"] };
  await send(stage.service.url, "/webhook", { method: "POST", body });
});
afterAll(async () => {
  await stage[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
});

test("an hour after it was asked for, an approval is told again, with what it is; control: not before", {
  timeout: 60_000,
}, async () => {
  stage.play("waits", {
    mission: turns({ calls: [plan("a")] }, { text: "So?" }, { calls: [dispatch("a", "Write it. [waits]")] }),
    task: turns({ calls: [{ tool: "write", input: { path: "a", content: "a\n" } }] }, { text: "Wrote it." }),
  });
  const { url } = stage.service;
  const directory = stage.project();
  const { missionID } = await wake(url, directory, { text: "[waits]", approve: ["plan", "landing"] });
  const told = () => receiver.received.map(({ message }) => message);
  const later = (minutes: number, count: number) => {
    skipped += minutes * 60_000;
    return until(
      () => Promise.resolve(told()),
      ({ length }) => length >= count,
      25_000,
    );
  };
  const planned = await until(
    () => missionOf(url, directory, missionID),
    ({ pending }) => pending.length > 0,
  );
  skipped += 30 * 60_000;
  expect(told()).toEqual([]);
  await later(31, 1);
  expect(told()).toMatchObject([{ type: "mission.reminded", data: { missionID, ask: { of: "plan" } } }]);
  await post(url, `/mission/${missionID}/pending/${planned.pending[0]?.id}`, directory, { decision: "allow" });
  const landing = await until(
    () => missionOf(url, directory, missionID),
    ({ tasks: [task] }) => (task?.pendingCount ?? 0) > 0,
  );
  await later(61, 2);
  const [task] = landing.tasks;
  expect(told().slice(1)).toMatchObject([
    { type: "task.reminded", data: { taskID: task?.taskID, ask: { of: "landing", id: task?.pending[0]?.id } } },
  ]);
  await post(url, `/mission/${missionID}/abort`, directory, { cascade: true });
});
