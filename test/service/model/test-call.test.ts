import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { temporary } from "../../harness/project.ts";
import { type MockProvider, type MockTurn, startMockProvider } from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** POST /model/test: one real call of a model, bounded, and the words for what went wrong. */

const key = "sk-the-operators-own-key-0123456789";
const root = temporary("sortie-trial-");
let provider: MockProvider;
let service: TestService;
let says: MockTurn = {};

beforeAll(async () => {
  provider = await startMockProvider(() => says);
  const config = join(root.path, "config.jsonc");
  const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: key };
  writeFileSync(config, JSON.stringify({ model: "mock/large", providers: { mock } }));
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
});
afterAll(async () => {
  provider.release();
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

const client = () => createServiceClient({ baseUrl: service.url });
const ready: MockTurn = {
  calls: [{ tool: "report", input: { word: "ready" } }],
  usage: { input: 61, output: 9 },
};

test("a model that answers, one that has no tools, one that refuses the key, and what is no model", async () => {
  says = ready;
  const { data: good } = await client().service.testModel({ body: {} });
  expect({ ...good, firstMs: 0, totalMs: 0 }).toEqual({
    ref: "mock/large",
    ok: true,
    firstMs: 0,
    totalMs: 0,
    usage: { inputTokens: 61, outputTokens: 9, cacheReadTokens: 0, cacheWriteTokens: 0, costUSD: null },
    tools: "worked",
    text: "",
    failure: null,
  });
  expect(good?.totalMs).toBeGreaterThanOrEqual(good?.firstMs ?? Number.NaN);

  says = { text: "I am ready." };
  const { data: mute } = await client().service.testModel({ body: { model: "mock/small" } });
  expect(mute).toMatchObject({ ref: "mock/small", ok: false, tools: "not called", text: "I am ready.", failure: null });

  says = { fail: { status: 401, message: `Incorrect API key provided: ${key}` } };
  const refused = await client().service.testModel({ body: { model: "mock/small" } });
  expect(refused.response?.status).toBe(200);
  expect(refused.data).toMatchObject({ ok: false, tools: "unknown", failure: { code: "provider_refused" } });
  expect(refused.data?.failure?.message).toContain("refused the key");
  expect(JSON.stringify(refused.data)).not.toContain(key);

  for (const [model, code] of [
    ["builtin/rules-1", "model_not_configured"],
    ["nobody/large", "model_not_found"],
    ["anthropic/claude-sonnet-5", "model_not_configured"],
  ] as const) {
    const { error } = await client().service.testModel({ body: { model } });
    expect([model, error]).toMatchObject([model, { status: 422, code }]);
  }
});

test("one at a time for a model, and ten a minute", async () => {
  says = { ...ready, hold: true };
  const first = client().service.testModel({ body: { model: "mock/held" } });
  await expect.poll(() => provider.held()).toBe(1);
  const second = await client().service.testModel({ body: { model: "mock/held" } });
  expect(second.error).toMatchObject({ code: "rate_limited", status: 429 });
  provider.release();
  expect((await first).data).toMatchObject({ ok: true });
  // Control: one after the other is no matter, until there were ten.
  says = ready;
  const states: number[] = [];
  const begun = performance.now();
  // Some were made before; one more every six seconds is allowed meanwhile.
  while (!states.includes(429) && states.length < 50)
    states.push((await client().service.testModel({ body: { model: "mock/held" } })).response?.status ?? 0);
  expect(states.at(-1)).toBe(429);
  expect(states.length).toBeGreaterThan(3);
  expect(states.length).toBeLessThanOrEqual(10 + Math.ceil((performance.now() - begun) / 6000));
});

test("an answer is kept for its key: the same request again calls nobody", async () => {
  const told = await startMockProvider(() => ready);
  const config = join(root.path, "other.jsonc");
  const mock = { kind: "openai-compatible", baseURL: told.baseURL, apiKey: key };
  writeFileSync(config, JSON.stringify({ model: "mock/large", providers: { mock } }));
  await using other = await startService(join(root.path, "other"), { SERVICE_CONFIG: config });
  const ask = () =>
    fetch(`${other.url}/model/test`, {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": "once" },
      body: "{}",
    });
  const [first, again] = [await ask(), await ask()];
  expect([first.headers.get("idempotent-replayed"), again.headers.get("idempotent-replayed")]).toEqual([null, "true"]);
  expect(await again.json()).toEqual(await first.json());
  expect(told.count()).toBe(1);
  await told.close();
});
