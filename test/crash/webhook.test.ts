import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { DeliveryRecord } from "../../src/protocol/webhook.ts";
import { makeProject, temporary, until } from "../harness/project.ts";
import { startMockProvider } from "../harness/double/mock-provider.ts";
import { freshSchema, postgresURL } from "../harness/postgres.ts";
import { seededRandom } from "../harness/random.ts";
import { startReceiver, verified } from "../harness/receiver.ts";
import { type ServiceProcess, startProcess } from "./process.ts";
import { night } from "../harness/night.ts";

/** What is on record is told, whenever the service is killed: at least once, with one id for each fact. */

const open = async (root: string, more: Record<string, string> = {}) => {
  const provider = await startMockProvider(() => ({ text: "Done." }));
  const config = join(root, "config.jsonc");
  writeFileSync(
    config,
    JSON.stringify({
      model: "mock/large",
      providers: { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } },
      sandbox: { tier: 3 },
      webhooks: { allow: ["127.0.0.1"] },
    }),
  );
  const env = { SERVICE_DATA_DIR: join(root, "data"), SERVICE_CONFIG: config, HOME: root, ...more };
  return { provider, env, project: makeProject(join(root, "project"), { "a.txt": "a\n" }) };
};

const ask = async <T>(service: ServiceProcess, path: string, body?: object): Promise<T> => {
  const headers = { "content-type": "application/json" };
  const sent = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
  const response = await fetch(`${service.url}${path}`, sent);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
};
const create = async (service: ServiceProcess, project: string, body: object = {}) => {
  const path = `/task?directory=${encodeURIComponent(project)}`;
  return (
    await ask<{ taskID: string }>(service, path, { request: "x", productPillar: "work", landing: "branch", ...body })
  ).taskID;
};
const delivered = (service: ServiceProcess, count: number) =>
  until(
    () => ask<{ deliveries: DeliveryRecord[] }>(service, "/webhook/deliveries?state=delivered&limit=200"),
    ({ deliveries }) => deliveries.length >= count,
  );

test.each([
  ["SQLite", undefined],
  ["PostgreSQL", postgresURL],
])(
  "%s: killed after the commit and before anybody was told, and again before the answer was recorded",
  {
    timeout: 60_000,
  },
  async (name, url) => {
    if (name === "PostgreSQL" && url === undefined) return;
    using root = temporary("sortie-hooks-");
    await using schema = url === undefined ? undefined : freshSchema(url);
    await schema?.create();
    const database =
      url === undefined || schema === undefined
        ? {}
        : { SERVICE_DATABASE_URL: `${url}?options=${encodeURIComponent(`-c search_path=${schema.name}`)}` };
    const { provider, env, project } = await open(root.path, database);
    let answers = false;
    await using receiver = await startReceiver((_, response) => void (answers && response.writeHead(204).end()));

    const first = await startProcess({ ...env, TEST_KILL_ON: "task.settled:1" });
    const { secret } = await ask<{ secret: string }>(first, "/webhook", {
      url: receiver.url,
      events: ["task.completed"],
    });
    const callbackSecret = (await ask<{ secret: string }>(first, "/webhook/secret", {})).secret;
    const taskID = await create(first, project, { callbackURL: `${receiver.url}/own?token=1` });
    await first.gone;
    expect(receiver.received).toEqual([]);

    const second = await startProcess(env);
    await receiver.got(2);
    await second.kill("SIGKILL");
    answers = true;

    await using third = await startProcess(env);
    await delivered(third, 2);
    for (const [path, key] of [
      ["/", secret],
      ["/own?token=1", callbackSecret],
    ] as const) {
      const all = receiver.received.filter((received) => received.path === path);
      expect(all.length).toBe(2);
      expect(new Set(all.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
      for (const received of all)
        expect(verified(key, received)).toMatchObject({ type: "task.completed", data: { taskID, attempt: 1 } });
    }
    await provider.close();
  },
);

test("killed at any time: every end on record is told, each under one id", { timeout: 600_000 }, async () => {
  using root = temporary("sortie-hooks-");
  const { provider, env, project } = await open(root.path);
  const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 1_000_000);
  process.stdout.write(`seed ${seed}\n`);
  const random = seededRandom(seed);
  await using receiver = await startReceiver((_, response) =>
    setTimeout(() => response.writeHead(random.below(4) === 0 ? 500 : 204).end(), random.below(20)),
  );
  const tasks: string[] = [];
  for (let round = 0; round < (night ? 30 : 4); round += 1) {
    const service = await startProcess(env);
    if (round === 0) await ask(service, "/webhook", { url: receiver.url, events: ["task.completed", "task.started"] });
    for (let index = 0; index < 3; index += 1) tasks.push(await create(service, project));
    await new Promise((resolve) => setTimeout(resolve, random.below(400)));
    await service.kill("SIGKILL");
  }
  await using last = await startProcess(env);
  await delivered(last, 0);
  // What was answered with 500 comes again after 5 s, and may be once more; a message has come by then, or will.
  const idOf = (taskID: string, type: string) =>
    new Set(
      receiver.received.flatMap(({ message, headers }) =>
        message.type === type && "taskID" in message.data && message.data.taskID === taskID
          ? [headers["webhook-id"]]
          : [],
      ),
    ).size;
  await until(
    () => Promise.resolve(tasks.map((taskID) => [idOf(taskID, "task.started"), idOf(taskID, "task.completed")])),
    (ids) => ids.every(([started, completed]) => started === 1 && completed === 1),
    120_000,
  );
  await provider.close();
});
