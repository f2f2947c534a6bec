import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServiceClient } from "../../src/client/client.ts";
import { makeProject, temporary, until } from "../harness.ts";
import { type MockProvider, type MockTurn, startMockProvider } from "../mock-provider.ts";
import { type Receiver, startReceiver, verified } from "../receiver.ts";
import { startService, type TestService } from "../service.ts";

/** Webhooks over HTTP on a real port, to real receivers, verified by a library that is not ours. */

let root: ReturnType<typeof temporary>;
let service: TestService;
let provider: MockProvider;
let scripts: Record<string, MockTurn[]> = {};
let count = 0;

beforeAll(async () => {
  root = temporary("sortie-webhooks-");
  provider = await startMockProvider(({ first, turn }) => {
    const script = Object.entries(scripts).find(([marker]) => first.includes(marker))?.[1] ?? [];
    return script[turn] ?? { text: "Done." };
  });
  mkdirSync(join(root.path, "data"));
  const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "mock-key-0123456789" };
  writeFileSync(
    join(root.path, "data/config.jsonc"),
    JSON.stringify({
      model: "mock/large",
      providers: { mock },
      sandbox: { tier: 3 },
      webhooks: { allow: ["127.0.0.1"] },
    }),
  );
  service = await startService(join(root.path, "data"));
});
afterAll(async () => {
  await service.close();
  await provider.close();
  root[Symbol.dispose]();
});

const project = () => makeProject(join(root.path, `p-${(count += 1)}`), { "a.txt": "one\n" });
const of = (directory: string) => createServiceClient({ baseUrl: service.url, directory, throwOnError: true });
const raw = async (method: string, path: string, body?: object, headers: Record<string, string> = {}) => {
  const response = await fetch(`${service.url}${path}`, {
    method,
    headers: { "content-type": "application/json", ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    text,
    body: JSON.parse(text || "null") as Record<string, never>,
    headers: response.headers,
  };
};
const secretOfCallbacks = async (): Promise<string> =>
  (await raw("POST", "/webhook/secret")).body["secret"] as unknown as string;
const run = async (directory: string, body: object = {}) => {
  const created = await raw("POST", `/task?directory=${encodeURIComponent(directory)}`, {
    request: "say something",
    productPillar: "work",
    ...body,
  });
  if (created.status !== 202) throw new Error(created.text);
  return created.body["taskID"] as unknown as string;
};
const ended = (taskID: string) => of("/").task.wait({ path: { taskID } });

describe("callbackURL", () => {
  test("is told the end of the Task, signed; again after a follow-up; and its query is seen by nobody", async () => {
    await using receiver = await startReceiver();
    const directory = project();
    const url = `${receiver.url}/hook/a?token=t0ken-that-nobody-sees`;
    const taskID = await run(directory, { callbackURL: url, title: "Say", metadata: { ticket: "A-1" } });
    const [first] = await receiver.got(1);
    const message = verified(await secretOfCallbacks(), first!);
    expect(first?.path).toBe("/hook/a?token=t0ken-that-nobody-sees");
    expect(first?.headers).toMatchObject({ "content-type": "application/json", "user-agent": "sortie" });
    expect(message).toEqual({
      type: "task.completed",
      timestamp: expect.stringMatching(/Z$/),
      data: {
        taskID,
        directory,
        title: "Say",
        source: "api",
        status: "inactive",
        lifecycleStatus: "completed",
        attempt: 1,
        summary: "Done.",
        landedCommit: null,
        branch: `sortie/${taskID}`,
        costUSD: null,
        metadata: { ticket: "A-1" },
        eventID: expect.any(Number),
        links: {
          status: `/task/${taskID}/status`,
          board: `/task/${taskID}/board`,
          archive: `/task/${taskID}/project-archive`,
        },
      },
    });
    await of(directory).task.message({ path: { taskID }, body: { source: "test", text: "again" } });
    const [, second] = await receiver.got(2);
    expect(verified(await secretOfCallbacks(), second!)).toMatchObject({
      type: "task.completed",
      data: { attempt: 2 },
    });
    expect(second?.headers["webhook-id"]).not.toBe(first?.headers["webhook-id"]);

    const shown = await raw("GET", `/task/${taskID}/status`);
    expect(shown.body["callbackURL"]).toBe(`${receiver.url}/hook/a`);
    for (const path of [
      `/task/${taskID}`,
      `/task/${taskID}/board`,
      `/task/${taskID}/events?format=json&after=0`,
      "/webhook/deliveries",
    ])
      expect((await raw("GET", path)).text).not.toContain("t0ken");
    expect(receiver.received).toHaveLength(2);
  });
});

void ended;
void until;
export type { Receiver };
