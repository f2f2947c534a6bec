import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { LLMock } from "@copilotkit/aimock";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { git, makeProject, readText, temporary } from "../../harness/project.ts";
import { cassettes, onCassette, recordsAnew } from "../../harness/double/cassette.ts";
import { startMockProvider } from "../../harness/double/mock-provider.ts";
import { acceptReviews } from "../../harness/double/reviews.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** Whole Tasks on recorded exchanges of every wire format; misses; what a recording must not hold. */

const secret = "sk-test-A-KEY-THAT-NOBODY-MAY-SEE";
const wires = [
  { name: "anthropic", provider: { kind: "anthropic" }, path: "/v1", model: "claude-sonnet-4-5" },
  { name: "openai", provider: { kind: "openai" }, path: "/v1", model: "gpt-5.4" },
  { name: "openai-chat", provider: { kind: "openai", api: "chat" }, path: "/v1", model: "gpt-4.1" },
  { name: "compatible", provider: { kind: "openai-compatible" }, path: "/v1", model: "large" },
  { name: "openrouter", provider: { kind: "openrouter" }, path: "/api/v1", model: "x/large" },
  { name: "google", provider: { kind: "google" }, path: "/v1beta", model: "gemini-2.5-pro" },
] as const;
const note =
  "Recorded from the mock provider of test/service/model/cassette.test.ts on the real wire format, not from a real model.";

let mock: LLMock | undefined;
const providerOf = async ({ provider, path }: (typeof wires)[number]) => {
  if (mock === undefined) {
    mock = new LLMock({ port: 0, host: "127.0.0.1", logLevel: "silent" });
    acceptReviews(mock);
    const calls = [
      { name: "read", arguments: JSON.stringify({ path: "a.txt" }) },
      { name: "write", arguments: JSON.stringify({ path: "b.txt", content: "two\n" }) },
    ];
    mock.on({ userMessage: "copy it", hasToolResult: false }, { content: "I look and write.", toolCalls: calls });
    mock.on({ userMessage: "copy it", hasToolResult: true }, { content: "b.txt is written." });
    await mock.start();
  }
  return { ...provider, baseURL: `${mock.url}${path}`, apiKey: secret };
};
afterAll(() => mock?.stop());

/** One Task that reads, writes and lands, whoever answers. */
const copies = async (service: TestService, model: `${string}/${string}`): Promise<void> => {
  using root = temporary("sortie-cassette-");
  const directory = makeProject(join(root.path, "project"), { "a.txt": "one\n" });
  const client = createServiceClient({ baseUrl: service.url, directory });
  const body = { request: "copy it", productPillar: "code" as const, model, checks: ["grep -q two b.txt"] };
  const taskID = (await client.task.create({ body })).data?.taskID ?? "";
  const { data: status } = await client.task.wait({ path: { taskID }, timeoutMs: 15_000 });
  expect(status, status?.error).toMatchObject({
    lifecycleStatus: "completed",
    model,
    usage: { modelCalls: 3, toolCalls: 3 },
    checks: [{ state: "passed" }],
  });
  expect(readText(directory, "b.txt")).toBe("two\n");
  expect(git(directory, "rev-list", "--count", "HEAD")).toBe("2");
};

describe("a whole Task on recorded exchanges", () => {
  test.each(wires)("$name", async (wire) => {
    const { name, model } = wire;
    await onCassette({ name: `copy-${name}`, provider: () => providerOf(wire), model, note, act: copies });
    if (!recordsAnew) expect(mock).toBeUndefined();
    const text = readFileSync(join(cassettes, `copy-${name}.json`), "utf8");
    expect(text).not.toContain(secret);
    expect(text).not.toMatch(/authorization|x-api-key|x-goog-api-key/i);
    expect(JSON.parse(text)).toMatchObject({ note, provider: { model }, exchanges: [{}, {}, {}] });
  });
});

describe("recording and playing", () => {
  let root: ReturnType<typeof temporary>;
  let directory: string;
  beforeAll(() => {
    root = temporary("sortie-cassettes-");
    directory = makeProject(join(root.path, "project"), { "a.txt": "one\n" });
  });
  afterAll(() => root[Symbol.dispose]());

  const ask = async (service: TestService, request: string, model: `${string}/${string}`) => {
    const client = createServiceClient({ baseUrl: service.url, directory });
    const created = await client.task.create({ body: { request, productPillar: "code", model } });
    const taskID = created.data?.taskID ?? "";
    return { ...created, status: (await client.task.wait({ path: { taskID }, timeoutMs: 15_000 })).data };
  };

  test("one file a Task, errors and all; played back it names the field that differs and calls nobody", async () => {
    let count = 0;
    const provider = await startMockProvider(() => {
      count += 1;
      if (count === 1) return { fail: { status: 503, message: `${secret} is not wanted here` } };
      // Within one piece of the stream: a path that is cut in two is not found again.
      return { text: `${root.path}/project has one file in it. ${"This is all there is to say about it. ".repeat(4)}` };
    });
    const config = join(root.path, "config.jsonc");
    const folder = join(root.path, "recorded");
    const known = { one: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "env:ONE_API_KEY" } };
    writeFileSync(config, JSON.stringify({ providers: known }));
    const env = { SERVICE_CONFIG: config, ONE_API_KEY: secret };
    {
      await using service = await startService(join(root.path, "one"), { ...env, SERVICE_RECORD: folder });
      const { status } = await ask(service, `Say what is in ${root.path}/project.`, "one/large");
      expect(status?.lifecycleStatus).toBe("completed");
    }
    const [file = ""] = readdirSync(folder);
    expect(file).toMatch(/^task_[0-9a-z]{26}\.one-large\.json$/);
    const text = readText(folder, file);
    expect(text).not.toContain(secret);
    const { exchanges } = JSON.parse(text) as { exchanges: { response: { status: number } }[] };
    expect(exchanges.map(({ response }) => response.status)).toEqual([503, 200]);
    expect(text).toContain('"$same": true');

    const asked = provider.count();
    const name = file.replace(/\.json$/, "");
    await using service = await startService(join(root.path, "two"), { ...env, SERVICE_CASSETTES: folder });
    const other = `Say what is in ${root.path}/elsewhere.`;
    const played = await ask(service, other, `replay/${name}`);
    expect(played.status).toMatchObject({ lifecycleStatus: "completed", usage: { modelCalls: 1 } });
    const client = createServiceClient({ baseUrl: service.url, directory });
    const { data } = await client.task.messages({ path: { taskID: played.status?.taskID ?? "" } });
    // A path that differs from run to run is given back as it is now.
    expect(data?.messages.at(-1)?.text).toContain(`${root.path}/elsewhere`);

    const missed = await ask(service, `Say what was in ${root.path}/project.`, `replay/${name}`);
    expect(missed.status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "provider_refused" } });
    expect(missed.status?.error).toMatch(
      /has no answer to this request\. body\.messages\[0\]\.content.*: expected ".*is in/,
    );
    expect(provider.count()).toBe(asked);

    const unknown = await client.task.create({ body: { request: "x", productPillar: "code", model: "replay/nobody" } });
    expect(unknown.error).toMatchObject({ code: "model_not_found", status: 422 });
    expect(unknown.error?.message).toContain(name);
    const { data: models } = await client.service.models();
    expect(models?.providers.find(({ id }) => id === "replay")?.models).toEqual([name]);
    await provider.close();
  });

  test("without a folder there is nothing to replay", async () => {
    await using service = await startService(join(root.path, "three"));
    const client = createServiceClient({ baseUrl: service.url, directory });
    const { error } = await client.task.create({ body: { request: "x", productPillar: "code", model: "replay/x" } });
    expect(error).toMatchObject({ code: "model_not_found" });
  });
});
