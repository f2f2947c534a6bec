import { existsSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { detectModels, listModels, testModel, useModel } from "../../../src/cli/model.ts";
import { createScreen } from "../../../src/cli/terminal/screen.ts";
import type { Found } from "../../../src/model/local-server.ts";
import { readText, temporary } from "../../harness/project.ts";
import { type MockProvider, type MockTurn, startMockProvider } from "../../harness/double/mock-provider.ts";

/**
 * `sortie model`: the settings of a folder of the test's, a provider on a real port, and servers as they were found.
 */

let root: ReturnType<typeof temporary>;
let flags: { dataDir: string };
let config: string;
let said: string;
let emitted: Record<string, unknown>[];
const screen = () => ({ ...createScreen(process.stdout, true), say: (text: string) => void (said += `${text}\n`) });
const emit = (value: object) => void emitted.push({ ...value });

beforeEach(() => {
  root = temporary("sortie-model-");
  flags = { dataDir: root.path };
  config = join(root.path, "config.jsonc");
  said = "";
  emitted = [];
});
afterEach(() => root[Symbol.dispose]());

const ollama: Found = {
  id: "ollama",
  name: "Ollama",
  version: "0.9.1",
  baseURL: "http://127.0.0.1:11434/v1",
  models: [{ id: "qwen3-coder:30b" }, { id: "small", contextWindow: 8_192 }],
};
const detect = async () => [ollama];

describe("ls and detect", () => {
  test("what is configured, which is in use and why", () => {
    writeFileSync(
      config,
      '{ "model": "acme/large", "failover": ["acme/small"], "providers": { "acme": { "kind": "openai-compatible", "baseURL": "http://127.0.0.1:9/v1" } } }',
    );
    expect(listModels(flags, screen(), undefined)).toBe(0);
    expect(said).toContain(`Model in use: acme/large (${config})`);
    expect(said).toContain("Stands in: acme/small");
    expect(said).toMatch(/^\* {2}acme +ready/m);
    expect(said).toMatch(/^ {3}anthropic +no key/m);
    listModels(flags, screen(), emit);
    expect(emitted).toMatchObject([{ active: { ref: "acme/large", source: config }, failover: ["acme/small"] }]);
  });

  test("found servers are offered, and nothing is written", async () => {
    expect(await detectModels(screen(), undefined, detect)).toBe(0);
    expect(said).toContain("Ollama 0.9.1 at http://127.0.0.1:11434/v1\n  ollama/qwen3-coder:30b\n  ollama/small\n");
    expect(said).toContain("sortie model use ollama/qwen3-coder:30b");
    await detectModels(screen(), emit, detect);
    expect(emitted).toEqual([ollama]);
    said = "";
    expect(await detectModels(screen(), undefined, async () => [])).toBe(0);
    expect(said).toContain("Nothing found on this machine. Looked for Ollama (11434), LM Studio (1234)");
    expect(readdirSync(root.path)).toEqual([]);
  });
});

describe("use", () => {
  const before = `{
  // Ours, since the outage of March.
  "model": "builtin/rules-1", /* for now */
  "limits": { "minutes": 240 }, // long builds
}
`;

  test("the file keeps its comments, its mode and being a link", async () => {
    const elsewhere = join(root.path, "real.jsonc");
    writeFileSync(elsewhere, before, { mode: 0o640 });
    symlinkSync(elsewhere, config);
    expect(await useModel("none", flags, screen(), undefined, detect)).toBe(0);
    expect(readText(config)).toBe(before.replace('"builtin/rules-1"', '"none"'));
    expect(statSync(elsewhere).mode & 0o777).toBe(0o640);
    expect(readdirSync(root.path).toSorted()).toEqual(["config.jsonc", "real.jsonc"]);
    expect(said).toContain("A running service uses it once it is restarted.");
  });

  test("a server that was found gets its provider's entry", async () => {
    expect(await useModel("ollama/small", flags, screen(), emit, detect)).toBe(0);
    expect(JSON.parse(readText(config))).toEqual({
      model: "ollama/small",
      providers: {
        ollama: {
          kind: "openai-compatible",
          baseURL: "http://127.0.0.1:11434/v1",
          models: [{ id: "small", contextWindow: 8_192 }],
        },
      },
    });
    expect(emitted).toMatchObject([{ active: { ref: "ollama/small", source: config }, overruledBy: null }]);
    // From now on it is known, whether it answers or not.
    expect(await useModel("ollama/other", flags, screen(), undefined, async () => [])).toBe(0);
  });

  test.each([
    ["ollama/absent", detect, "Ollama has no model"],
    ["vllm/x", detect, "No vllm server is running on this machine"],
    ["anthropic/claude-sonnet-5", detect, "ANTHROPIC_API_KEY is not set"],
    ["nobody/x", detect, 'No provider "nobody"'],
    ["large", detect, "Expected a model as provider/model"],
  ])("%s is refused and changes nothing", async (ref, servers, words) => {
    writeFileSync(config, before);
    const refused = useModel(ref, flags, screen(), undefined, servers);
    await expect(refused).rejects.toMatchObject({ exitCode: 6 });
    await expect(refused).rejects.toThrow(words);
    expect(readText(config)).toBe(before);
  });
});

describe("test", () => {
  const against = async (turn: MockTurn, act: (provider: MockProvider) => Promise<void>) => {
    const provider = await startMockProvider(() => turn);
    const providers = { acme: { kind: "openai-compatible", baseURL: provider.baseURL } };
    writeFileSync(config, JSON.stringify({ model: "acme/large", providers }));
    try {
      await act(provider);
    } finally {
      await provider.close();
    }
  };

  test("one real call: how fast, and that tools work", () =>
    against({ calls: [{ tool: "report", input: { word: "ready" } }], latencyMs: 40 }, async (provider) => {
      expect(await testModel(undefined, flags, screen(), undefined)).toBe(0);
      expect(said).toMatch(/^acme\/large answers: first token after .+, .+ in all$/m);
      expect(said).toContain("Tokens  100 in, 10 out, cost unknown");
      expect(said).toContain("Tools   work");
      expect(provider.count()).toBe(1);
      await testModel("acme/other", flags, screen(), emit);
      expect(emitted).toMatchObject([{ ref: "acme/other", ok: true, tools: "worked", failure: null }]);
      const { firstMs, totalMs } = emitted[0] as { firstMs: number; totalMs: number };
      expect(firstMs).toBeGreaterThanOrEqual(35);
      expect(totalMs).toBeGreaterThanOrEqual(firstMs);
    }));

  test.each<[string, MockTurn, number, string]>([
    ["no call", { text: "I am ready." }, 1, "not called"],
    ["a call that does not parse", { calls: [{ tool: "report", input: '{"word' }] }, 1, "called wrongly"],
    ["another word", { calls: [{ tool: "report", input: { word: "steady" } }] }, 1, "called wrongly"],
    ["a refused key", { fail: { status: 401 } }, 4, "failed"],
    ["an unknown model", { fail: { status: 404 } }, 1, "does not know the model"],
    ["trouble", { fail: { status: 503 } }, 3, "is in trouble"],
  ])("%s", (_name, turn, code, words) =>
    against(turn, async () => {
      expect(await testModel(undefined, flags, screen(), undefined)).toBe(code);
      expect(said).toContain(words);
    }),
  );

  test("nobody there is unreachable; the rules are no language model", async () => {
    writeFileSync(
      config,
      '{ "providers": { "acme": { "kind": "openai-compatible", "baseURL": "http://127.0.0.1:1/v1" } } }',
    );
    expect(await testModel("acme/large", flags, screen(), undefined)).toBe(3);
    await expect(testModel("builtin/rules-1", flags, screen(), undefined)).rejects.toMatchObject({ exitCode: 6 });
    expect(existsSync(`${config}.draft`)).toBe(false);
  });
});
