import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { git, makeProject, temporary } from "../../harness/project.ts";
import { type MockProvider, startMockProvider } from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";

/**
 * Messages to a Task of the built-in rules that waits for its place, behind a Task whose model answers when the test
 * says.
 */

let provider: MockProvider;
let service: TestService;
let root: ReturnType<typeof temporary>;
let gate = Promise.withResolvers<void>();
let count = 0;

beforeAll(async () => {
  root = temporary("sortie-early-");
  provider = await startMockProvider(async () => {
    await gate.promise;
    return { text: "Done." };
  });
  const config = join(root.path, "config.jsonc");
  const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" };
  writeFileSync(config, JSON.stringify({ providers: { mock } }));
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config, SERVICE_MAX_RUNNING: "1" });
});
afterAll(async () => {
  gate.resolve();
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

const block = (path: string, text: string) => `Write ${path}:\n\n\`\`\`txt file=${path}\n${text}\n\`\`\`\n`;

const played = async (request: string, messages: readonly string[]) => {
  gate = Promise.withResolvers();
  const directory = makeProject(join(root.path, String((count += 1))), { "a.txt": "a\n" });
  const client = createServiceClient({ baseUrl: service.url, directory });
  const ask = async (body: { request: string; model?: string }) =>
    (await client.task.create({ body: { productPillar: "code", ...body } })).data?.taskID ?? "";
  await ask({ request: "hold the place", model: "mock/large" });
  const taskID = await ask({ request, model: "builtin/rules-1" });
  for (const text of messages) await client.task.message({ path: { taskID }, body: { source: "test", text } });
  const before = (await client.task.get({ path: { taskID } })).data;
  expect(before?.phase).toBe("queued");
  gate.resolve();
  const { data } = await client.task.wait({ path: { taskID }, timeoutMs: 20_000 });
  const files = git(directory, "ls-files").split("\n");
  return { status: data?.lifecycleStatus, error: data?.errorInfo?.code, files };
};

test("another block is read with the request", async () => {
  expect(await played(block("one.txt", "one"), [block("two.txt", "two")])).toEqual({
    status: "completed",
    error: undefined,
    files: ["a.txt", "one.txt", "two.txt"],
  });
});

test("another block in the middle of the work is read with it", async () => {
  gate.resolve();
  const tested = JSON.stringify({ name: "slow", scripts: { test: "sleep 1" } });
  const directory = makeProject(join(root.path, String((count += 1))), { "package.json": tested });
  const client = createServiceClient({ baseUrl: service.url, directory });
  const request = `${block("one.txt", "one")}\nRun the tests\n`;
  const { data: made } = await client.task.create({
    body: { productPillar: "code", model: "builtin/rules-1", request },
  });
  const path = { taskID: made?.taskID ?? "" };
  const events = async () => (await fetch(`${service.url}/task/${path.taskID}/events?format=json&after=0`)).text();
  await expect.poll(events, { timeout: 10_000 }).toContain('"tool":"shell"');
  await client.task.message({ path, body: { source: "test", text: block("two.txt", "two") } });
  const { data } = await client.task.wait({ path, timeoutMs: 20_000 });
  expect([data?.lifecycleStatus, data?.errorInfo?.code]).toEqual(["completed", undefined]);
  expect(git(directory, "ls-files").split("\n")).toEqual(["one.txt", "package.json", "two.txt"]);
});

test("a file that was asked for twice is as its last block", async () => {
  expect(
    await played(`${block("one.txt", "one")}\n${block("two.txt", "two")}`, [
      block("one.txt", "other"),
      block("three.txt", "three"),
    ]),
  ).toEqual({ status: "completed", error: undefined, files: ["a.txt", "one.txt", "three.txt", "two.txt"] });
});
