import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { LLMock } from "@copilotkit/aimock";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { git, makeProject, readText, temporary } from "../../harness/project.ts";
import { acceptReviews } from "../../harness/double/reviews.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** Whole Tasks over the real wire formats of providers: a mock on a real port, tool calls, results sent back. */

let mock: LLMock;
let root: ReturnType<typeof temporary>;
let service: TestService;

const wires = [
  { id: "anthropic", provider: { kind: "anthropic" }, path: "/v1", model: "claude-sonnet-4-5", priced: true },
  { id: "openai", provider: { kind: "openai" }, path: "/v1", model: "gpt-5.4", priced: true },
  { id: "chat", provider: { kind: "openai", api: "chat" }, path: "/v1", model: "gpt-4.1", priced: false },
  { id: "acme", provider: { kind: "openai-compatible" }, path: "/v1", model: "large", priced: false },
  { id: "openrouter", provider: { kind: "openrouter" }, path: "/api/v1", model: "x/large", priced: false },
  { id: "google", provider: { kind: "google" }, path: "/v1beta", model: "gemini-2.5-pro", priced: true },
];
const secret = "sk-test-A-KEY-THAT-NOBODY-MAY-SEE";

beforeAll(async () => {
  root = temporary("sortie-providers-");
  mock = new LLMock({ port: 0, host: "127.0.0.1", logLevel: "silent" });
  acceptReviews(mock);
  const calls = [
    { name: "read", arguments: JSON.stringify({ path: "a.txt" }) },
    { name: "write", arguments: JSON.stringify({ path: "b.txt", content: "two\n" }) },
  ];
  mock.on({ userMessage: "copy it", hasToolResult: false }, { content: "I look and write.", toolCalls: calls });
  mock.on({ userMessage: "copy it", hasToolResult: true }, { content: "b.txt is written." });
  await mock.start();
  const config = join(root.path, "config.jsonc");
  const providers = Object.fromEntries(
    wires.map(({ id, provider, path }) => [id, { ...provider, baseURL: `${mock.url}${path}`, apiKey: "env:THE_KEY" }]),
  );
  writeFileSync(config, JSON.stringify({ providers }));
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config, THE_KEY: secret });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await mock.stop();
  root[Symbol.dispose]();
});

test.each(wires)("$id: a Task with tool calls lands", async ({ id, model, priced }) => {
  const directory = makeProject(join(root.path, id), { "a.txt": "one\n" });
  const client = createServiceClient({ baseUrl: service.url, directory });
  const created = await client.task.create({
    body: { request: "copy it", productPillar: "code", model: `${id}/${model}`, checks: ["grep -q two b.txt"] },
  });
  const taskID = created.data?.taskID ?? "";
  const { data: status } = await client.task.wait({ path: { taskID }, timeoutMs: 15_000 });
  expect(status).toMatchObject({
    lifecycleStatus: "completed",
    model: `${id}/${model}`,
    usage: { modelCalls: 3, toolCalls: 3 },
    checks: [{ state: "passed" }],
  });
  expect(status?.usage.costUSD === null).toBe(!priced && id !== "chat");
  expect(readText(directory, "b.txt")).toBe("two\n");
  expect(git(directory, "rev-list", "--count", "HEAD")).toBe("2");
  const { data } = await client.task.messages({ path: { taskID } });
  expect(data?.messages.map(({ text }) => text)).toEqual(["copy it", "I look and write.", "b.txt is written.", ""]);
  expect(data?.messages[1]?.calls.map(({ tool, state }) => `${tool} ${state}`)).toEqual(["read ok", "write ok"]);
  const events = await fetch(`${service.url}/task/${taskID}/events?format=json&after=0`);
  expect(await events.text()).not.toContain(secret);
});

test("a refused key fails the Task with the variable's name, never the key", async () => {
  const directory = makeProject(join(root.path, "refused"), { "a.txt": "one\n" });
  const client = createServiceClient({ baseUrl: service.url, directory });
  mock.on(
    { userMessage: "be refused" },
    { error: { message: `bad key ${secret}`, type: "authentication_error" }, status: 401 },
  );
  const created = await client.task.create({
    body: { request: "be refused", productPillar: "code", model: "anthropic/claude-sonnet-4-5" },
  });
  const { data: status } = await client.task.wait({ path: { taskID: created.data?.taskID ?? "" }, timeoutMs: 15_000 });
  expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "provider_refused" } });
  expect(status?.error).toContain("THE_KEY");
  expect(JSON.stringify(status)).not.toContain(secret);
});
