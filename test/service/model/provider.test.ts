import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { LLMock } from "@copilotkit/aimock";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { git, makeProject, readText, temporary } from "../../harness/project.ts";
import { acceptReviews } from "../../harness/double/reviews.ts";
import { teamOf, writePackage } from "../../harness/double/squads.ts";
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
  const acme = { ...providers["acme"], models: [{ id: "thinker", effort: "low" }, "large"] };
  writeFileSync(config, JSON.stringify({ effort: "none", providers: { ...providers, acme } }));
  writePackage(
    join(root.path, "data/squads"),
    teamOf("pair", { orchestrator: ["read, delegate", "delegates: [deep]\n"], deep: ["read", "effort: medium\n"] }),
  );
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

test("effort: the Task's word counts before its agent's, that before the model's, that before the service's", async () => {
  const directory = makeProject(join(root.path, "effort"), { "a.txt": "one\n" });
  const client = createServiceClient({ baseUrl: service.url, directory });
  const hand = { name: "delegate", arguments: JSON.stringify({ agent: "deep", brief: "look into it" }) };
  mock.on({ userMessage: "think it over", hasToolResult: false }, { toolCalls: [hand] });
  mock.on({ userMessage: "think it over", hasToolResult: true }, { content: "Thought over." });
  mock.on({ userMessage: "look into it" }, { content: "Looked." });
  mock.on({ userMessage: "only say" }, { content: "Said." });
  const run = async (body: { request: string; promptProfile?: string; effort?: "high"; model: string }) => {
    const before = mock.getRequests().length;
    const created = await client.task.create({
      body: { productPillar: body.promptProfile === undefined ? "work" : "code", checks: [], ...body },
    });
    const { data: status } = await client.task.wait({
      path: { taskID: created.data?.taskID ?? "" },
      timeoutMs: 15_000,
    });
    expect(status).toMatchObject({ lifecycleStatus: "completed", effort: body.effort ?? null });
    return {
      sent: mock
        .getRequests()
        .slice(before)
        .map(({ body: request }) => (request as { reasoning_effort?: string }).reasoning_effort),
      shown: status?.sessionInvocationTopology.nodes.map(({ agent, effort }) => `${agent} ${effort}`),
    };
  };
  const pair = { request: "think it over", promptProfile: "pair", model: "acme/thinker" };
  expect(await run(pair)).toEqual({ sent: ["low", "medium", "low"], shown: ["orchestrator low", "deep medium"] });
  expect(await run({ ...pair, effort: "high" })).toEqual({
    sent: ["high", "high", "high"],
    shown: ["orchestrator high", "deep high"],
  });
  // A model that is not known to take one, whatever is asked for; and one that is, with the service's word.
  const say = { request: "only say" };
  expect(await run({ ...say, effort: "high", model: "acme/large" })).toEqual({
    sent: [undefined],
    shown: ["orchestrator null"],
  });
  expect((await run({ ...say, model: "openai/gpt-5.4" })).shown).toEqual(["orchestrator none"]);

  const wrong = await fetch(`${service.url}/task`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-service-directory": directory },
    body: JSON.stringify({ request: "only say", productPillar: "work", effort: "extreme" }),
  });
  expect(wrong.status).toBe(400);
  expect(await wrong.text()).toContain('"body.effort"');
});
