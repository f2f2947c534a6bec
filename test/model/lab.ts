import { LLMock } from "@copilotkit/aimock";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import type { Patience } from "../../src/model/provider/fetch.ts";
import type { Connection } from "../../src/model/provider-kind.ts";
import type { ModelFailure, ModelRequest, Traits } from "../../src/model/model.ts";
import { createProviderModel } from "../../src/model/provider/provider.ts";
import { startFront, type Front } from "./front.ts";
import { requestOf, user } from "./suite.ts";

/** A mock of every kind of provider on a real port with a front before it, for the test file that imports this. */

export const key = "sk-test-THE-SECRET-KEY-0123456789";

export let mock: LLMock;
export let front: Front;

/** Once in each test file: workers share modules, and each file has a mock of its own. */
export const setUpModelLab = (): void => {
  beforeAll(async () => {
    mock = new LLMock({ port: 0, host: "127.0.0.1", logLevel: "silent" });
    const calls = [
      { name: "read", arguments: '{"path":"a.txt"}' },
      { name: "read", arguments: '{"path":"b.txt"}' },
    ];
    mock.on({ userMessage: "read two", hasToolResult: false }, { content: "Reading both.", toolCalls: calls });
    mock.on({ userMessage: "read two", hasToolResult: true }, { content: "Both are read." });
    // Each wire takes the names it knows.
    const usage = {
      input_tokens: 1_000,
      output_tokens: 50,
      prompt_tokens: 1_000,
      completion_tokens: 50,
      promptTokenCount: 1_000,
      candidatesTokenCount: 50,
    };
    mock.on({ userMessage: "say hello" }, { content: "Hello to you, whoever you are, on this fine day.", usage });
    mock.on({ userMessage: "be wrong" }, { toolCalls: [{ name: "read", arguments: '{"path": "a.txt", ' }] });
    mock.on({ userMessage: "a list" }, { toolCalls: [{ name: "read", arguments: '["a.txt"]' }] });
    mock.on({ userMessage: "too much" }, { content: "And so on and", finishReason: "length" });
    mock.on(
      { userMessage: "think first", hasToolResult: false },
      {
        content: "Now I know.",
        reasoning: "Let me see.",
        reasoningSignature: "c2lnbmF0dXJl",
        toolCalls: calls.slice(0, 1),
      },
    );
    mock.on({ userMessage: "think first", hasToolResult: true }, { content: "Done thinking." });
    await mock.start();
    front = await startFront(mock.url);
  });

  afterAll(async () => {
    await front.close();
    await mock.stop();
  });

  afterEach(() => {
    front.fault = undefined;
    front.seen.length = 0;
  });
};

export type Wire = { name: string; kind: Connection["kind"]; api?: Connection["api"]; path: string; model: string };
export const wires: Wire[] = [
  { name: "Anthropic", kind: "anthropic", path: "/v1", model: "claude-sonnet-4-5" },
  { name: "OpenAI Responses", kind: "openai", path: "/v1", model: "gpt-5.4" },
  { name: "OpenAI chat", kind: "openai", api: "chat", path: "/v1", model: "gpt-4.1" },
  { name: "OpenAI-compatible", kind: "openai-compatible", path: "/v1", model: "large" },
  { name: "OpenRouter", kind: "openrouter", path: "/api/v1", model: "anthropic/claude-sonnet-4.5" },
  { name: "Google", kind: "google", path: "/v1beta", model: "gemini-2.5-pro" },
];

export const connectionOf = ({ kind, api, path }: Wire, origin = front.origin): Connection => ({
  id: kind === "openai-compatible" ? "acme" : kind,
  kind,
  baseURL: `${origin}${path}`,
  apiKey: key,
  keySource: "TEST_KEY",
  headers: {},
  api: api ?? "responses",
});

export const traits = ({ kind }: Wire): Traits => ({
  window: 100_000,
  takes: { images: true, pdf: kind !== "openai-compatible", tools: true },
  effort: { usual: undefined },
});

export const open = (wire: Wire, patience: Partial<Patience> = {}) =>
  createProviderModel(connectionOf(wire), wire.model, traits(wire), {
    patience: { firstMs: 60_000, silentMs: 60_000, replyMs: 60_000, ...patience },
  });

export const failureOf = async (
  wire: Wire,
  more: Partial<ModelRequest> = {},
  patience: Partial<Patience> = {},
): Promise<ModelFailure> => {
  const reply = await open(wire, patience).reply(requestOf([user("say hello")], more));
  if (reply.ok) throw new Error(`Expected a failure, got "${reply.text}"`);
  expect(JSON.stringify(reply)).not.toContain(key);
  return reply;
};

export const arrived = () => JSON.stringify(front.seen.at(-1)?.body);
