import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Clock, createClock } from "../../../src/clock.ts";
import { createTask, send } from "../../harness/double/hostile-text.ts";
import { makeProject, temporary } from "../../harness/project.ts";
import { type Receiver, startReceiver } from "../../harness/receiver.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** A machine whose clock is put back while something waits to be told. The control believes the machine's clock. */

const hour = 3_600_000;
type Machine = { ahead: number };
const steady = (machine: Machine): Clock => createClock({ wall: () => Date.now() + machine.ahead });
const believing =
  (machine: Machine): Clock =>
  () =>
    new Date(Date.now() + machine.ahead);

/** Refuses the first time, and wants to be asked again after so many seconds. */
const refusing = (seconds: number): Promise<Receiver> => {
  let asked = false;
  return startReceiver((_, response) => {
    response.writeHead(asked ? 204 : 503, { "retry-after": String(seconds) }).end();
    asked = true;
  });
};

const open = (root: string, clock: Clock): Promise<TestService> => {
  const config = join(root, "config.jsonc");
  writeFileSync(config, JSON.stringify({ model: "builtin/rules-1", webhooks: { allow: ["127.0.0.1"] } }));
  return startService(join(root, "data"), { SERVICE_CONFIG: config }, clock);
};

/** A Task has ended, the receiver has refused to hear it, and that is on record. */
const refuse = async ({ url }: TestService, root: string, receiver: Receiver): Promise<void> => {
  const body = { url: receiver.url, events: ["task.completed"] };
  expect((await send(url, "/webhook", { method: "POST", body })).status).toBe(200);
  const project = makeProject(join(root, "project"), { "a.txt": "a\n" });
  await createTask(url, project, { request: "Write:\n```txt file=b.txt\nb\n```", checks: [] });
  const attempts = async () => {
    const answer = await send(url, "/webhook/deliveries");
    return (answer.body["deliveries"] as { attempts: number }[])[0]?.attempts;
  };
  await expect.poll(attempts, { timeout: 15_000 }).toBe(1);
};

/** How often the receiver was asked within so long after the clock was put back. */
const toldOnTheWay = async (clockOf: (machine: Machine) => Clock): Promise<number> => {
  using root = temporary("sortie-told-");
  await using receiver = await refusing(1);
  const machine = { ahead: 0 };
  await using service = await open(root.path, clockOf(machine));
  await refuse(service, root.path, receiver);
  machine.ahead -= hour;
  await receiver.got(2, 9_000).catch(() => undefined);
  return receiver.received.length;
};

test("a delivery that waits while the clock is put back is told after its span; control: by the machine's clock it is not", {
  timeout: 60_000,
}, async () => {
  expect(await Promise.all([toldOnTheWay(steady), toldOnTheWay(believing)])).toEqual([2, 1]);
});

/** The same after a start, by a clock that was so much ahead before. */
const toldByTheNext = async (ahead: number): Promise<number> => {
  using root = temporary("sortie-told-");
  await using receiver = await refusing(600);
  {
    await using before = await open(root.path, steady({ ahead }));
    await refuse(before, root.path, receiver);
  }
  await using _after = await open(root.path, steady({ ahead: 0 }));
  await receiver.got(2, 3_000).catch(() => undefined);
  return receiver.received.length;
};

test("started an hour earlier than it ended, it tells what waits at once; control: by the same clock that waits", {
  timeout: 60_000,
}, async () => {
  expect(await Promise.all([toldByTheNext(hour), toldByTheNext(0)])).toEqual([2, 1]);
});
