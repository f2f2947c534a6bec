import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { startPostgresProxy } from "../harness/double/postgres-proxy.ts";
import { startMockProvider } from "../harness/double/mock-provider.ts";
import { night } from "../harness/night.ts";
import { countSkipped, freshSchema, postgresURL } from "../harness/postgres.ts";
import { makeProject, temporary, until } from "../harness/project.ts";
import { seededRandom } from "../harness/random.ts";
import { startReceiver } from "../harness/receiver.ts";
import { startService } from "../harness/service.ts";

/** A service whose connections to PostgreSQL are cut at random, and which loses the database altogether for a while. */

type Status = { taskID: string; lifecycleStatus: string; error?: unknown };

const tasks = night ? 40 : 2;
const cuts = night ? 150 : 6;

test.skipIf(postgresURL === undefined)(
  "cut at random: every Task ends well and is told once, nothing is 500, and what was refused was not done",
  { timeout: night ? 600_000 : 60_000 },
  async () => {
    const url = postgresURL ?? "";
    const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 1_000_000);
    process.stdout.write(`database cuts: TEST_SEED=${seed}\n`);
    const random = seededRandom(seed);
    using root = temporary("sortie-cuts-");
    await using schema = freshSchema(url);
    await schema.create();
    await using proxy = await startPostgresProxy(url);
    await using receiver = await startReceiver();
    const provider = await startMockProvider(({ turn }) =>
      turn < 3
        ? { calls: [{ tool: "write", input: { path: `f-${turn}.txt`, content: `${turn}\n` } }] }
        : { text: "Done." },
    );
    mkdirSync(join(root.path, "data"));
    const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" };
    writeFileSync(
      join(root.path, "data/config.jsonc"),
      JSON.stringify({
        model: "mock/large",
        providers: { mock },
        sandbox: { tier: 3 },
        webhooks: { allow: ["127.0.0.1"] },
      }),
    );
    const address = new URL(proxy.url);
    address.searchParams.set("options", `-c search_path=${schema.name}`);
    await using service = await startService(join(root.path, "data"), { SERVICE_DATABASE_URL: address.href });
    let ended = false;
    void service.failure.then(() => {
      ended = true;
    });
    const directory = makeProject(join(root.path, "project"), { "a.txt": "a\n" });
    const statuses: number[] = [];
    const ask = async (path: string, body?: object): Promise<{ status: number; body: Record<string, unknown> }> => {
      const headers = { "content-type": "application/json", "x-service-directory": directory };
      const sent = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
      const response = await fetch(`${service.url}${path}`, sent);
      statuses.push(response.status);
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    };
    expect((await ask("/webhook", { url: receiver.url, events: ["task.completed"] })).status).toBe(200);

    const health = async () => (await (await fetch(`${service.url}/health`)).json()) as Record<string, unknown>;
    let left = cuts;
    const cutOn = () => {
      let at = 1 + random.below(300);
      proxy.rule(({ count }) => {
        if (count < at || left === 0) return "pass";
        left -= 1;
        at = count + 1 + random.below(300);
        return random.pick(["cut", "cut after"] as const);
      });
    };
    cutOn();
    const made: string[] = [];
    for (let index = 0; index < tasks; index += 1) {
      const { status, body } = await ask("/task", { request: "x", productPillar: "work", landing: "branch" });
      if (status === 202) made.push(String(body["taskID"]));
      if (index !== tasks - 1) continue;
      proxy.down();
      expect(await health()).toMatchObject({
        healthy: false,
        store: { ok: false, reason: expect.any(String) as string },
      });
      await pause(night ? 4_000 : 700);
      proxy.open();
    }
    const all = async () => {
      const { status, body } = await ask("/tasks?limit=100");
      return status === 200 ? (body as unknown as Status[]) : undefined;
    };
    const listed = await until(
      all,
      (found) => left === 0 && found?.every(({ lifecycleStatus }) => lifecycleStatus !== "active") === true,
      night ? 400_000 : 40_000,
    );
    proxy.rule(undefined);
    expect((listed ?? []).map(({ lifecycleStatus, error }) => error ?? lifecycleStatus)).toEqual(
      made.map(() => "completed"),
    );
    expect((listed ?? []).map(({ taskID }) => taskID).toSorted()).toEqual(made.toSorted());
    const told = () =>
      receiver.received.flatMap(({ message: { data }, headers }) =>
        "taskID" in data ? [`${data.taskID} ${String(headers["webhook-id"])}`] : [],
      );
    await until(
      () => Promise.resolve(new Set(told())),
      (ids) => ids.size >= made.length,
      night ? 120_000 : 20_000,
    );
    const once = [...new Set(told())].map((line) => line.slice(0, line.indexOf(" ")));
    expect(once.toSorted()).toEqual(made.toSorted());
    expect(statuses.filter((status) => status >= 500 && status !== 503)).toEqual([]);
    expect(ended).toBe(false);
    expect(await health()).toMatchObject({ healthy: true, faults: 0 });
    expect(proxy.cuts()).toBe(cuts);
    await provider.close();
  },
);
if (postgresURL === undefined) countSkipped(1);
