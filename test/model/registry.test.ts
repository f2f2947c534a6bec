import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import { ServiceError, StartError } from "../../src/error.ts";
import { silent } from "../../src/log.ts";
import { noUsage, type Model, type ModelFailure } from "../../src/model/model.ts";
import { createRegistry, type RegistryOptions } from "../../src/model/registry.ts";
import { retryAttempts, decideRetry } from "../../src/agent/loop/failure.ts";
import { costOf } from "../../src/model/provider/cost.ts";
import { defaultLimits } from "../../src/protocol/limit.ts";
import { temporary, until } from "../harness/project.ts";
import { startMockProvider } from "../harness/double/mock-provider.ts";
import { replyOf, requestOf, user } from "./suite.ts";

const rules: Model = {
  ref: "builtin/rules-1",
  retries: false,
  window: 1_000,
  takes: { images: false, pdf: false, tools: true },
  reply: () => Promise.reject(new Error("not called")),
};

const registry = (options: Partial<RegistryOptions> = {}) =>
  createRegistry({ model: undefined, providers: {}, env: {}, rules: async () => rules, log: silent, ...options });

const refusal = (act: () => unknown): { code: string; status: number; message: string } => {
  try {
    act();
  } catch (error) {
    if (error instanceof ServiceError) return { code: error.code, status: error.status, message: error.message };
    throw error;
  }
  throw new Error("Expected a refusal");
};

const startRefusal = (options: Partial<RegistryOptions>): StartError => {
  try {
    registry(options);
  } catch (error) {
    if (error instanceof StartError) return error;
    throw error;
  }
  throw new Error("Expected the start to be refused");
};

const acme = { kind: "openai-compatible", baseURL: "http://127.0.0.1:9911/v1", apiKey: "env:ACME_KEY" } as const;

describe("the model in use, and why", () => {
  test.each<[string, Partial<RegistryOptions>, string, string]>([
    ["nothing set", {}, "builtin/rules-1", "built-in default"],
    ["a key", { env: { OPENAI_API_KEY: "k" } }, "openai/gpt-5.5", "key in OPENAI_API_KEY"],
    ["an empty key", { env: { OPENAI_API_KEY: " " } }, "builtin/rules-1", "built-in default"],
    [
      "two keys",
      { env: { OPENROUTER_API_KEY: "k", ANTHROPIC_API_KEY: "k" } },
      "anthropic/claude-sonnet-5",
      "key in ANTHROPIC_API_KEY",
    ],
    [
      "the other Google key",
      { env: { GEMINI_API_KEY: "k" } },
      "google/gemini-3.1-pro-preview",
      "key in GEMINI_API_KEY",
    ],
    [
      "configured, over a key",
      { model: { ref: "acme/large", source: "SERVICE_MODEL" }, env: { OPENAI_API_KEY: "k" } },
      "acme/large",
      "SERVICE_MODEL",
    ],
    ["none", { model: { ref: "none", source: "config.jsonc" } }, "none", "config.jsonc"],
    [
      "a local server is never silently taken",
      { providers: { acme: { ...acme, apiKey: undefined } } },
      "builtin/rules-1",
      "built-in default",
    ],
  ])("%s", (_name, options, ref, source) => {
    expect(registry(options).active()).toEqual({ ref, source });
  });
});

describe("resolve", () => {
  test("explicit over configured, the first slash separates", () => {
    const models = registry({
      model: { ref: "acme/large", source: "--model" },
      providers: { acme },
      env: { ACME_KEY: "k", OPENROUTER_API_KEY: "k" },
    });
    expect(models.resolve(undefined)).toBe("acme/large");
    expect(models.resolve("builtin/rules-1")).toBe("builtin/rules-1");
    expect(models.resolve("openrouter/anthropic/claude-sonnet-5")).toBe("openrouter/anthropic/claude-sonnet-5");
  });

  test.each(["large", "/large", "acme/", "acme/ x", "", "nobody/large", "builtin/rules-2"])("unknown: %j", (ref) => {
    const { code, status, message } = refusal(() =>
      registry({ providers: { acme }, env: { ACME_KEY: "k" } }).resolve(ref),
    );
    expect({ code, status }).toEqual({ code: "model_not_found", status: 422 });
    expect(message).toContain("builtin/rules-1, acme/<model>");
  });

  test("a provider without its key names the variable", () => {
    const models = registry({ providers: { acme } });
    expect(refusal(() => models.resolve("acme/large"))).toMatchObject({ code: "model_not_configured", status: 422 });
    expect(refusal(() => models.resolve("acme/large")).message).toContain("ACME_KEY is not set");
    expect(refusal(() => models.resolve("google/x")).message).toContain(
      "GOOGLE_GENERATIVE_AI_API_KEY and GEMINI_API_KEY are not set",
    );
  });

  test('"none" refuses Tasks without a model of their own', () => {
    const models = registry({ model: { ref: "none", source: "SERVICE_MODEL" } });
    expect(refusal(() => models.resolve(undefined))).toMatchObject({ code: "model_not_configured" });
    expect(refusal(() => models.resolve(undefined)).message).toContain('SERVICE_MODEL says "none"');
    expect(refusal(() => models.resolve("none"))).toMatchObject({ code: "model_not_configured" });
    expect(models.resolve("builtin/rules-1")).toBe("builtin/rules-1");
  });
});

describe("providers", () => {
  test("the list says where keys come from and never the key", () => {
    const models = registry({
      providers: {
        acme: { ...acme, name: "Acme", models: ["large", "small"] },
        vault: { kind: "anthropic", apiKey: "sk-literal-secret" },
        proxy: { kind: "openai", baseURL: "https://proxy.example/v1" },
        openai: { kind: "openai", baseURL: "https://eu.openai.example/v1/" },
      },
      env: { ACME_KEY: "sk-acme-secret", OPENAI_API_KEY: "sk-openai-secret" },
    });
    const byID = Object.fromEntries(models.list().map((provider) => [provider.id, provider]));
    expect(Object.keys(byID)).toEqual([
      "builtin",
      "anthropic",
      "openai",
      "google",
      "openrouter",
      "acme",
      "vault",
      "proxy",
    ]);
    expect(byID["builtin"]).toMatchObject({ kind: "builtin", configured: true, keySource: null, models: ["rules-1"] });
    expect(byID["acme"]).toEqual({
      id: "acme",
      kind: "openai-compatible",
      name: "Acme",
      configured: true,
      keySource: "ACME_KEY",
      baseURL: "http://127.0.0.1:9911/v1",
      models: ["large", "small"],
      breaker: { state: "closed", failures: 0, since: null, retryAt: null },
    });
    expect(byID["vault"]).toMatchObject({ configured: true, keySource: "config.jsonc" });
    expect(byID["openai"]).toMatchObject({ configured: true, baseURL: "https://eu.openai.example/v1" });
    // The usual key does not go to somebody else's address.
    expect(byID["proxy"]).toMatchObject({ configured: false, keySource: null });
    expect(byID["anthropic"]).toMatchObject({ configured: false, keySource: null });
    expect(JSON.stringify(models.list())).not.toContain("secret");
  });

  test.each<[string, string]>([
    ["http://models.example/v1", "expected an https baseURL"],
    ["http://127.0.0.1.evil.example/v1", "expected an https baseURL"],
    ["http://localhost.evil.example/v1", "expected an https baseURL"],
    ["ftp://127.0.0.1/v1", "expected an https baseURL"],
    ["not a url", "expected an https baseURL"],
    ["https://user:secret@models.example/v1", "without user and password"],
  ])("baseURL %s is refused at the start", (baseURL, words) => {
    const error = startRefusal({ providers: { acme: { ...acme, baseURL } } });
    expect(error.exitCode).toBe(78);
    expect(error.message).toContain("Provider acme");
    expect(error.message).toContain(words);
    expect(error.message).not.toContain("secret");
  });

  test.each(["https://models.example/v1", "http://localhost:1/v1", "http://[::1]:1/v1", "http://127.0.0.2/v1"])(
    "baseURL %s is accepted",
    (baseURL) => {
      expect(registry({ providers: { acme: { ...acme, baseURL } } }).list()).toHaveLength(6);
    },
  );

  test("openai-compatible needs a baseURL, and builtin is taken", () => {
    expect(startRefusal({ providers: { acme: { kind: "openai-compatible" } } }).message).toContain("needs a baseURL");
    expect(startRefusal({ providers: { builtin: acme } }).message).toContain('"builtin"');
  });
});

test("limits that would cut every line end the start", () => {
  using root = temporary();
  const config = join(root.path, "config.jsonc");
  const load = (modelSilentSeconds: number) => {
    writeFileSync(config, JSON.stringify({ limits: { modelSilentSeconds } }));
    return loadConfig({ config, dataDir: root.path }, {}).limits.modelSilentSeconds;
  };
  expect(() => load(0)).toThrow("limits.modelSilentSeconds: expected at least 1, got 0.");
  expect(load(1)).toBe(1);
});

describe("failover", () => {
  const two = { acme: { ...acme, models: [{ id: "mute", tools: false }] }, local: { ...acme, apiKey: undefined } };
  const env = { ACME_KEY: "k", ANTHROPIC_API_KEY: "k" };
  const make = (failover: string[], model = "anthropic/a") =>
    registry({ providers: two, env, failover, model: { ref: model, source: "SERVICE_MODEL" } });

  test("in the list's order, without what was tried, what has no tools and what has no key", async () => {
    const models = make(["acme/mute", "openai/no-key", "acme/large", "local/small"]);
    expect(await models.fallbackModel("anthropic/a", [])).toBe("acme/large");
    expect(await models.fallbackModel("acme/large", ["anthropic/a"])).toBe("local/small");
    expect(await models.fallbackModel("local/small", ["anthropic/a", "acme/large"])).toBeUndefined();
    // The operator's own choice comes last.
    expect(await models.fallbackModel("local/small", [])).toBe("acme/large");
    expect(await models.fallbackModel("local/small", ["acme/large"])).toBe("anthropic/a");
  });

  test("a model that a Task asked for is replaced only where it is listed", async () => {
    const models = make(["acme/large", "local/small"]);
    expect(await models.fallbackModel("anthropic/other", [])).toBeUndefined();
    expect(await models.fallbackModel("local/small", [])).toBe("acme/large");
    expect(await make([]).fallbackModel("anthropic/a", [])).toBeUndefined();
  });

  test.each([["nobody/x"], ["builtin/rules-1"], ["acme/a,acme/a"]])("%s ends the start", (list) => {
    const refused = startRefusal({ providers: two, env, failover: list.split(",") });
    expect(refused.exitCode).toBe(78);
    expect(refused.message).toContain("failover in config.jsonc");
  });
});

describe("load", () => {
  test("a configured provider is called with its key; one model per name", async () => {
    const mock = await startMockProvider({ hello: [{ text: "Hi.", usage: { input: 30, output: 5, cached: 20 } }] });
    try {
      const models = registry({
        providers: { acme: { ...acme, baseURL: mock.baseURL, headers: { "x-team": "blue" } } },
        env: { ACME_KEY: "sk-acme" },
      });
      const model = await models.load(models.resolve("acme/large"));
      expect(await models.load("acme/large")).toBe(model);
      const reply = await replyOf(model, requestOf([user("hello")]));
      expect(reply).toMatchObject({ text: "Hi.", finish: "end" });
      expect(reply.usage).toEqual({
        inputTokens: 30,
        outputTokens: 5,
        cacheReadTokens: 20,
        cacheWriteTokens: 0,
        costUSD: null,
      });
      expect(mock.requests[0]?.headers).toMatchObject({ authorization: "Bearer sk-acme", "x-team": "blue" });
      expect(mock.requests[0]?.body.model).toBe("large");
    } finally {
      await mock.close();
    }
  });

  test("what a model can read: the operator's word, the table, a careful guess", async () => {
    const small = { id: "small", contextWindow: 8_000, images: true, pdf: true, tools: false };
    const models = registry({
      providers: { acme: { ...acme, models: ["large", small, { id: "half", images: true }] } },
      env: { ACME_KEY: "k", OPENROUTER_API_KEY: "k", ANTHROPIC_API_KEY: "k", OPENAI_API_KEY: "k" },
    });
    expect(models.list().find(({ id }) => id === "acme")?.models).toEqual(["large", "small", "half"]);
    const traits = async (ref: `${string}/${string}`) => {
      const { window, takes } = await models.load(ref);
      return [window, takes.images, takes.pdf, takes.tools];
    };
    expect(await traits("acme/small")).toEqual([8_000, true, true, false]);
    expect(await traits("acme/half")).toEqual([32_768, true, false, true]);
    expect(await traits("acme/large")).toEqual([32_768, false, false, true]);
    expect(await traits("acme/qwen2.5-vl:7b")).toEqual([32_768, true, false, true]);
    expect(await traits("anthropic/claude-sonnet-4-5")).toEqual([200_000, true, true, true]);
    expect(await traits("anthropic/claude-not-yet-known")).toEqual([200_000, true, true, true]);
    expect(await traits("openai/gpt-4")).toEqual([8_192, false, false, true]);
    expect(await traits("openai/gpt-4.1")).toEqual([1_000_000, true, true, true]);
    expect(await traits("openrouter/anthropic/claude-sonnet-5")).toEqual([1_000_000, true, true, true]);
    expect(await traits("openrouter/nobody/knows")).toEqual([64_000, false, true, true]);
  });

  test("others wait for a probe's first byte as long as limits.probeSeconds says, and no longer", async () => {
    let fails = true;
    const mock = await startMockProvider(({ first }) => {
      if (fails) return { fail: { status: 503 } };
      return first === "probe" ? { text: "Late.", hold: true } : { text: "Hi." };
    });
    const providers = { acme: { ...acme, baseURL: mock.baseURL } };
    const limits = { ...defaultLimits, breakerFailures: 1, probeSeconds: 0.5 };
    vi.useFakeTimers({ toFake: ["Date"] });
    try {
      const model = await registry({ providers, env: { ACME_KEY: "k" }, limits }).load("acme/large");
      const ask = (text: string) => model.reply(requestOf([user(text)]));
      expect((await ask("one")).ok).toBe(false);
      expect(await ask("two")).toMatchObject({ held: true });
      fails = false;
      vi.setSystemTime(Date.now() + 6_000);
      const probe = ask("probe");
      await until(
        async () => mock.held(),
        (held) => held === 1,
      );
      const begun = performance.now();
      expect(await ask("other")).toMatchObject({ ok: true, text: "Hi." });
      expect(performance.now() - begun).toBeGreaterThan(300);
      expect(mock.held()).toBe(1);
      mock.release();
      expect(await probe).toMatchObject({ ok: true });
    } finally {
      vi.useRealTimers();
      mock.release();
      await mock.close();
    }
  });

  test("a provider without a key sends none", async () => {
    const mock = await startMockProvider({ hello: [{ text: "Hi." }] });
    try {
      const models = registry({ providers: { acme: { kind: "openai-compatible", baseURL: mock.baseURL } } });
      await replyOf(await models.load("acme/large"), requestOf([user("hello")]));
      expect(mock.requests[0]?.headers).not.toHaveProperty("authorization");
    } finally {
      await mock.close();
    }
  });

  test("the rules, loaded once; what is not there rejects", async () => {
    let loads = 0;
    const models = registry({
      rules: async () => {
        loads += 1;
        return rules;
      },
    });
    expect(await models.load("builtin/rules-1")).toBe(rules);
    expect(await models.load("builtin/rules-1")).toBe(rules);
    expect(loads).toBe(1);
    await expect(models.load("nobody/x")).rejects.toMatchObject({ code: "model_not_found" });
    await expect(models.load("openai/gpt-5")).rejects.toMatchObject({ code: "model_not_configured" });
  });

  test("a load that failed is tried again", async () => {
    let loads = 0;
    const models = registry({
      rules: async () => {
        loads += 1;
        if (loads === 1) throw new Error("no file handles");
        return rules;
      },
    });
    await expect(models.load("builtin/rules-1")).rejects.toThrow("no file handles");
    expect(await models.load("builtin/rules-1")).toBe(rules);
  });
});

describe("what follows a failure", () => {
  const failed = (more: Partial<ModelFailure> & { retryable?: boolean } = {}): ModelFailure => {
    const { retryable = true, ...rest } = more;
    return { ok: false, failure: { code: "x", message: "x", retryable, remedy: null }, usage: noUsage, ...rest };
  };

  const sequel = (failure: ModelFailure, attempt: number, standIn: boolean, random: () => number) =>
    decideRetry(failure, attempt, { standIn, patienceMs: 60_000, random });

  test("doubles up to the cap, with full jitter, and gives up", () => {
    const longest = Array.from({ length: retryAttempts }, (_, index) => sequel(failed(), index + 1, false, () => 1));
    expect(longest.map((next) => (next.kind === "again" ? next.delayMs : next.kind))).toEqual([
      1_000,
      2_000,
      4_000,
      8_000,
      16_000,
      "fail",
    ]);
    expect(sequel(failed(), 3, false, () => 0)).toEqual({ kind: "again", delayMs: 0, attempt: 4 });
    expect(sequel(failed(), 3, false, () => 0.5)).toEqual({ kind: "again", delayMs: 2_000, attempt: 4 });
  });

  test("what the provider asks wins; past a minute the Task waits outside, with no attempt used", () => {
    expect(sequel(failed({ retryAfterMs: 7_000 }), 1, false, () => 0)).toMatchObject({ delayMs: 7_000 });
    expect(sequel(failed({ retryAfterMs: 7_000 }), 1, false, () => 1)).toMatchObject({ delayMs: 7_700 });
    expect(sequel(failed({ retryAfterMs: 60_000 }), 1, false, () => 0)).toMatchObject({ kind: "again" });
    const far = failed({ retryAfterMs: 3_600_000, elsewhere: true });
    expect(sequel(far, 1, false, () => 0)).toEqual({ kind: "later", delayMs: 3_600_000 });
    expect(sequel(far, retryAttempts, false, () => 0)).toEqual({ kind: "later", delayMs: 3_600_000 });
    expect(sequel(far, 1, true, () => 0)).toEqual({ kind: "elsewhere" });
    expect(sequel(failed({ retryAfterMs: 7_000 }), retryAttempts, false, () => 0.1)).toEqual({ kind: "fail" });
  });

  test("what cannot get better is not tried again; another model only for the provider's own reasons", () => {
    expect(sequel(failed({ retryable: false, retryAfterMs: 1_000 }), 1, true, () => 0)).toEqual({ kind: "fail" });
    expect(sequel(failed({ retryable: false, elsewhere: true }), 1, true, () => 0)).toEqual({ kind: "elsewhere" });
    expect(sequel(failed({ retryable: false, elsewhere: true }), 1, false, () => 0)).toEqual({ kind: "fail" });
    const trouble = failed({ elsewhere: true });
    expect(sequel(trouble, 1, true, () => 0)).toMatchObject({ kind: "again" });
    expect(sequel(trouble, retryAttempts, true, () => 0)).toEqual({ kind: "elsewhere" });
  });

  test("a call that was held back uses no attempt", () => {
    const held = failed({ held: true, elsewhere: true, retryAfterMs: 4_000 });
    expect(sequel(held, 6, false, () => 0.5)).toEqual({ kind: "again", delayMs: 4_500, attempt: 6 });
    expect(sequel(held, 1, true, () => 0)).toEqual({ kind: "elsewhere" });
  });
});

describe("cost", () => {
  const tokens = { inputTokens: 1_000, outputTokens: 1_000, cacheReadTokens: 0, cacheWriteTokens: 0 };

  test("by the table, without the network", async () => {
    const { fetch } = globalThis;
    const asked: string[] = [];
    globalThis.fetch = async (input) => {
      asked.push(new Request(input).url);
      throw new Error("offline");
    };
    try {
      expect(await costOf(tokens, "anthropic", "claude-sonnet-4-5")).toBeCloseTo(0.018, 6);
      expect(await costOf({ ...tokens, cacheReadTokens: 1_000 }, "anthropic", "claude-sonnet-4-5")).toBeCloseTo(
        0.0153,
        6,
      );
      for (const [provider, model] of [
        ["anthropic", "claude-sonnet-5"],
        ["openai", "gpt-5.5"],
        ["google", "gemini-3.1-pro-preview"],
        ["openrouter", "anthropic/claude-sonnet-5"],
      ] as const)
        expect(await costOf(tokens, provider, model), model).toBeGreaterThan(0);
      expect(asked).toEqual([]);
    } finally {
      globalThis.fetch = fetch;
    }
  });

  test("an unknown model or provider has no known cost, the rules cost nothing", async () => {
    expect(await costOf(tokens, "openai", "nobody-knows")).toBeNull();
    expect(await costOf(tokens, "acme", "gpt-5")).toBeNull();
    expect(await costOf(tokens, "builtin", "rules-1")).toBe(0);
  });
});

test("the window of an open model is what its maker publishes, and the start says which is assumed and why", async () => {
  const said: unknown[] = [];
  const log = { ...silent, info: (what: object) => void said.push(what) } as typeof silent;
  const own = { kind: "openai-compatible", baseURL: "http://127.0.0.1:9/v1", apiKey: "none" } as const;
  const names = [
    "gpt-oss:20b",
    "Qwen/Qwen3-Coder-30B",
    "llama3.1:8b",
    "kimi-k2-instruct-0905",
    "devstral-small-2507",
    "mine",
  ];
  const models = registry({
    model: { ref: "acme/gpt-oss:20b", source: "test" },
    failover: ["acme/mine", "acme/qwen3:8b"],
    providers: { acme: { ...own, models: [{ id: "qwen3:8b", contextWindow: 8_000 }] } },
    log,
  });
  const windows = await Promise.all(names.map(async (name) => (await models.load(`acme/${name}`)).window));
  expect(windows).toEqual([131_072, 262_144, 131_072, 262_144, 131_072, 32_768]);
  expect(said.slice(1)).toEqual([
    { model: "acme/gpt-oss:20b", window: 131_072, because: expect.stringContaining("published") },
    {
      model: "acme/mine",
      window: 32_768,
      because: expect.stringContaining(
        'not known; if it was started with another one, say so in config.jsonc: providers.acme.models: [{ "id": "mine", "contextWindow": … }]',
      ),
    },
    { model: "acme/qwen3:8b", window: 8_000, because: "config.jsonc says so" },
  ]);
});
