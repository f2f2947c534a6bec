import { LLMock } from "@copilotkit/aimock";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { createProviderModel } from "../../src/model/provider.ts";
import { knownKinds, type Connection } from "../../src/model/kinds.ts";
import type { ModelFailure, ModelRequest } from "../../src/model/model.ts";
import { startFront, type Front } from "./model-front.ts";
import { answered, modelSuite, replyOf, requestOf, user } from "./model-suite.ts";

/** Every kind of provider against a mock on a real port; the bodies checked are those that arrived. */

const key = "sk-test-THE-SECRET-KEY-0123456789";
const png = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=",
  "base64",
);
const pdf = Buffer.from("%PDF-1.4\n%%EOF\n");

let mock: LLMock;
let front: Front;

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
    ...{ input_tokens: 1_000, output_tokens: 50, prompt_tokens: 1_000, completion_tokens: 50 },
    ...{ promptTokenCount: 1_000, candidatesTokenCount: 50 },
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

type Wire = { name: string; kind: Connection["kind"]; api?: Connection["api"]; path: string; model: string };
const wires: Wire[] = [
  { name: "Anthropic", kind: "anthropic", path: "/v1", model: "claude-sonnet-4-5" },
  { name: "OpenAI Responses", kind: "openai", path: "/v1", model: "gpt-5.4" },
  { name: "OpenAI chat", kind: "openai", api: "chat", path: "/v1", model: "gpt-4.1" },
  { name: "OpenAI-compatible", kind: "openai-compatible", path: "/v1", model: "large" },
  { name: "OpenRouter", kind: "openrouter", path: "/api/v1", model: "anthropic/claude-sonnet-4.5" },
  { name: "Google", kind: "google", path: "/v1beta", model: "gemini-2.5-pro" },
];

const connectionOf = ({ kind, api, path }: Wire, origin = front.origin): Connection => ({
  id: kind === "openai-compatible" ? "acme" : kind,
  kind,
  baseURL: `${origin}${path}`,
  apiKey: key,
  keySource: "TEST_KEY",
  headers: {},
  api: api ?? "responses",
});

const open = (wire: Wire, silenceMs?: number) =>
  createProviderModel(connectionOf(wire), wire.model, silenceMs === undefined ? {} : { silenceMs });

const failureOf = async (wire: Wire, more: Partial<ModelRequest> = {}, silenceMs?: number): Promise<ModelFailure> => {
  const reply = await open(wire, silenceMs).reply(requestOf([user("say hello")], more));
  if (reply.ok) throw new Error(`Expected a failure, got "${reply.text}"`);
  expect(JSON.stringify(reply)).not.toContain(key);
  return reply;
};

const arrived = () => JSON.stringify(front.seen.at(-1)?.body);

for (const wire of wires) {
  modelSuite(wire.name, async () => ({ model: open(wire), text: "read two", close: async () => {} }));

  describe(wire.name, () => {
    test("system, tools, two parallel calls, and their results in the next request", async () => {
      const model = open(wire);
      const messages = [user("read two")];
      const first = await replyOf(model, requestOf(messages));
      expect(first.text).toBe("Reading both.");
      expect(first.calls).toEqual([
        { tool: "read", input: { path: "a.txt" } },
        { tool: "read", input: { path: "b.txt" } },
      ]);
      expect(front.seen).toHaveLength(1);
      expect(arrived()).toContain("You are careful.");
      expect(arrived()).toContain("Reads a file.");
      expect(arrived()).toContain('"required":["path"]');
      const keyHeader = { anthropic: "x-api-key", google: "x-goog-api-key" }[wire.kind as string] ?? "authorization";
      expect(front.seen[0]?.headers[keyHeader]).toContain(key);

      messages.push(...answered(first, ({ input }) => `contents of ${(input as { path: string }).path}`));
      const second = await replyOf(model, requestOf(messages));
      expect(second).toMatchObject({ text: "Both are read.", calls: [], finish: "end" });
      expect(front.seen).toHaveLength(2);
      const body = arrived();
      for (const part of ["Reading both.", "contents of a.txt", "contents of b.txt"]) expect(body).toContain(part);
      if (wire.kind !== "google") for (const id of ["call_own0", "call_own1"]) expect(body.split(id)).toHaveLength(3);
      expect(body.indexOf("contents of a.txt")).toBeLessThan(body.indexOf("contents of b.txt"));
    });

    test("usage is counted", async () => {
      const { usage } = await replyOf(open(wire), requestOf([user("say hello")]));
      expect(usage).toMatchObject({ inputTokens: 1_000, outputTokens: 50, cacheReadTokens: 0, cacheWriteTokens: 0 });
      if (wire.kind === "openai-compatible") expect(usage.costUSD).toBeNull();
      else expect(usage.costUSD).toBeGreaterThan(0);
    });

    test("files: an image and a PDF as such, text inline, the rest by name", async () => {
      const files = [
        { filename: "dot.png", mime: "image/png", bytes: png },
        { filename: "paper.pdf", mime: "application/pdf", bytes: pdf },
        { filename: "notes.md", mime: "text/markdown", bytes: Buffer.from("# Remember the milk") },
        { filename: "blob.bin", mime: "application/octet-stream", bytes: Buffer.from([0, 1, 2, 255]) },
      ];
      await replyOf(open(wire), requestOf([user("say hello", files)]));
      const body = arrived();
      expect(body).toContain(png.toString("base64"));
      if (wire.kind === "openai-compatible") expect(body).toContain("Attachment paper.pdf (application/pdf");
      else expect(body).toContain(pdf.toString("base64"));
      expect(body).toContain("# Remember the milk");
      expect(body).toContain("Attachment blob.bin (application/octet-stream, 4 bytes) cannot be shown");
    });

    test("arguments that do not parse, or are no object, say how to repair them", async () => {
      // Gemini's arguments are JSON within JSON, which cannot be malformed; the mock mends Anthropic's (see below).
      if (wire.kind === "google" || wire.kind === "anthropic") return;
      const wrong = await replyOf(open(wire), requestOf([user("be wrong")]));
      expect(wrong.calls).toHaveLength(1);
      expect(wrong.calls[0]?.invalid).toMatch(/^Expected the arguments of read as one JSON object, got text/);
      const list = await replyOf(open(wire), requestOf([user("a list")]));
      expect(list.calls[0]?.invalid).toMatch(/got \["a.txt"\]/);
    });

    test("a reply that reached the output limit", async () => {
      // The mock ends a Responses stream as complete whatever the reason (see below).
      if (wire.name === "OpenAI Responses") return;
      const reply = await replyOf(open(wire), requestOf([user("too much")]));
      expect(reply).toMatchObject({ text: "And so on and", finish: "length" });
    });

    test.each([
      [401, "provider_refused", false, "refused the key from TEST_KEY (401)."],
      [403, "provider_refused", false, "refused the key from TEST_KEY (403)"],
      [404, "provider_refused", false, `does not know the model ${wire.model} (404)`],
      [400, "provider_refused", false, "did not accept the request"],
      [429, "provider_limited", true, "asks to slow down (429)"],
      [500, "provider_unavailable", true, "is in trouble (500)"],
      [503, "provider_unavailable", true, "is in trouble (503)"],
      [529, "provider_unavailable", true, "is in trouble (529)"],
    ])("status %i", async (status, code, retryable, words) => {
      const message = `${key} is what you sent: ${"x".repeat(2_000)}`;
      const body = JSON.stringify({ type: "error", error: { message, type: "some_error", code: status, status: "X" } });
      front.fault = { kind: "status", status, body };
      const { failure } = await failureOf(wire);
      expect(failure).toMatchObject({ code, retryable });
      expect(failure.message).toContain(words);
      expect(failure.message.length).toBeLessThan(700);
      // The control: the provider's own words are quoted, and held the key.
      if (status !== 401) expect(failure.message).toContain("[redacted:key] is what you sent");
      // No retries but our own.
      expect(front.seen).toHaveLength(1);
    });

    test("Retry-After in seconds, as a date and in milliseconds", async () => {
      const body = JSON.stringify({ error: { message: "slow down", type: "rate_limit_error" } });
      const wait = async (headers: Record<string, string>) => {
        front.fault = { kind: "status", status: 429, body, headers };
        return (await failureOf(wire)).retryAfterMs;
      };
      expect(await wait({ "retry-after": "7" })).toBe(7_000);
      expect(await wait({ "retry-after": "7", "retry-after-ms": "250" })).toBe(250);
      const date = await wait({ "retry-after": new Date(Date.now() + 30_000).toUTCString() });
      expect(date).toBeGreaterThan(27_000);
      expect(date).toBeLessThanOrEqual(30_000);
      expect(await wait({ "retry-after": "soon" })).toBeUndefined();
      expect(await wait({})).toBeUndefined();
    });

    test("a conversation that is too long", async () => {
      const message = "This model's maximum context length is 8192 tokens, you sent 9000.";
      front.fault = { kind: "status", status: 400, body: JSON.stringify({ error: { message, type: "x" } }) };
      expect((await failureOf(wire)).failure).toMatchObject({ code: "context_too_long", retryable: false });
    });

    test("a body that is no JSON", async () => {
      front.fault = { kind: "status", status: 502, body: "<html>Bad Gateway</html>" };
      expect((await failureOf(wire)).failure).toMatchObject({ code: "provider_unavailable", retryable: true });
    });

    test("a stream cut at any of several places is a failure that can be tried again", async () => {
      for (const after of [0, 1, 60, 200]) {
        front.fault = { kind: "cut", after };
        const { failure } = await failureOf(wire);
        expect(failure, `cut after ${after}`).toMatchObject({ code: "provider_unavailable", retryable: true });
      }
    });

    test("a silent stream is cut", async () => {
      front.fault = { kind: "silent", after: 60 };
      const started = performance.now();
      const { failure } = await failureOf(wire, {}, 150);
      expect(performance.now() - started).toBeLessThan(1_500);
      expect(failure).toMatchObject({ code: "provider_unavailable", retryable: true });
      expect(failure.message).toContain("fell silent (no byte for 0.15 s)");
      front.fault = { kind: "hold" };
      expect((await failureOf(wire, {}, 150)).failure.message).toContain("fell silent");
    });

    test("an abort rejects with its reason within 100 ms and closes the line", async () => {
      for (const fault of [{ kind: "hold" }, { kind: "silent", after: 60 }] as const) {
        front.fault = fault;
        const stop = new AbortController();
        const reason = new Error("cancelled by the user");
        const pending = open(wire).reply(requestOf([user("say hello")], { signal: stop.signal }));
        const outcome = expect(pending).rejects.toBe(reason);
        await expect.poll(() => front.open(), { interval: 5 }).toBeGreaterThan(0);
        const started = performance.now();
        stop.abort(reason);
        await outcome;
        expect(performance.now() - started).toBeLessThan(100);
        await expect.poll(() => front.open(), { interval: 5 }).toBe(0);
      }
    });

    test("a redirect is refused, and nothing reaches where it leads", async () => {
      const other = await startFront(mock.url);
      try {
        front.fault = { kind: "redirect", to: `${other.origin}/elsewhere` };
        const { failure } = await failureOf(wire);
        expect(failure).toMatchObject({ code: "provider_refused", retryable: false });
        expect(failure.message).toContain("redirect");
        expect(other.seen).toEqual([]);
        // The control: a fetch that follows does arrive there.
        await fetch(front.origin, { method: "POST", body: "{}" });
        expect(other.seen).toHaveLength(1);
      } finally {
        await other.close();
      }
    });

    test("nothing answers", async () => {
      const gone = await startFront(mock.url);
      await gone.close();
      const reply = await createProviderModel(connectionOf(wire, gone.origin), wire.model).reply(
        requestOf([user("say hello")]),
      );
      expect(reply).toMatchObject({ ok: false, failure: { code: "provider_unavailable", retryable: true } });
      expect(!reply.ok && reply.failure.message).toContain(`nothing answers at ${gone.origin} (ECONNREFUSED)`);
    });
  });
}

/** A stream in the provider's own words, where the mock has none. */
const stream = (events: { type: string; [field: string]: unknown }[]): void => {
  const body = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
  front.fault = { kind: "status", status: 200, body, headers: { "content-type": "text/event-stream" } };
};

describe("streams in the provider's own words", () => {
  const anthropic = wires[0] as Wire;
  const responses = wires[1] as Wire;
  const start = {
    type: "message_start",
    message: {
      ...{ id: "msg_1", type: "message", role: "assistant", model: anthropic.model, content: [] },
      ...{ stop_reason: null, stop_sequence: null },
      usage: { input_tokens: 100, cache_read_input_tokens: 700, cache_creation_input_tokens: 200, output_tokens: 1 },
    },
  };
  const end = (stop_reason: string) => [
    { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 40 } },
    { type: "message_stop" },
  ];

  test("Anthropic: what the cache gave and took, and malformed arguments", async () => {
    stream([
      start,
      {
        type: "content_block_start",
        index: 0,
        content_block: { type: "tool_use", id: "toolu_1", name: "read", input: {} },
      },
      { type: "content_block_delta", index: 0, delta: { type: "input_json_delta", partial_json: '{"path": "a' } },
      { type: "content_block_stop", index: 0 },
      ...end("tool_use"),
    ]);
    const reply = await replyOf(open(anthropic), requestOf([user("go")]));
    expect(reply.usage).toMatchObject({
      inputTokens: 1_000,
      cacheReadTokens: 700,
      cacheWriteTokens: 200,
      outputTokens: 40,
    });
    // 100 at $3, 700 at $0.30, 200 at $3.75, 40 at $15 per million.
    expect(reply.usage.costUSD).toBeCloseTo(0.00186, 6);
    expect(reply.calls[0]).toMatchObject({ tool: "read", input: '{"path": "a' });
    expect(reply.calls[0]?.invalid).toMatch(
      /^Expected the arguments of read as one JSON object, got text that is not JSON/,
    );
  });

  test("Anthropic: arguments cut at the output limit say so", async () => {
    stream([
      start,
      {
        type: "content_block_start",
        index: 0,
        content_block: { type: "tool_use", id: "toolu_1", name: "read", input: {} },
      },
      { type: "content_block_delta", index: 0, delta: { type: "input_json_delta", partial_json: '{"path": "a' } },
      { type: "content_block_stop", index: 0 },
      ...end("max_tokens"),
    ]);
    const reply = await replyOf(open(anthropic), requestOf([user("go")]));
    expect(reply.finish).toBe("length");
    expect(reply.calls[0]?.invalid).toContain("cut at the output limit");
  });

  test("Anthropic: an overload in the middle of a stream, and a refusal at its end", async () => {
    stream([start, { type: "error", error: { type: "overloaded_error", message: "Overloaded" } }]);
    expect((await failureOf(anthropic)).failure).toEqual({
      code: "provider_unavailable",
      message: "anthropic is in trouble (529): Overloaded.",
      retryable: true,
      remedy: null,
    });
    stream([start, ...end("refusal")]);
    const { failure, usage } = await failureOf(anthropic);
    expect(failure).toMatchObject({ code: "provider_refused", retryable: false });
    expect(failure.message).toContain("withheld the reply");
    expect(usage.outputTokens).toBe(40);
  });

  test("OpenAI Responses: the output limit", async () => {
    const item = { id: "msg_1", type: "message", role: "assistant", status: "in_progress", content: [] };
    stream([
      { type: "response.created", response: { id: "resp_1", created_at: 1, model: responses.model } },
      { type: "response.output_item.added", output_index: 0, item },
      { type: "response.output_text.delta", item_id: "msg_1", output_index: 0, content_index: 0, delta: "And so on" },
      { type: "response.output_item.done", output_index: 0, item: { ...item, status: "incomplete" } },
      {
        type: "response.incomplete",
        response: {
          incomplete_details: { reason: "max_output_tokens" },
          usage: {
            ...{ input_tokens: 900, output_tokens: 60, output_tokens_details: { reasoning_tokens: 0 } },
            input_tokens_details: { cached_tokens: 512 },
          },
        },
      },
    ]);
    const reply = await replyOf(open(responses), requestOf([user("go")]));
    expect(reply).toMatchObject({ text: "And so on", finish: "length" });
    expect(reply.usage).toMatchObject({ inputTokens: 900, outputTokens: 60, cacheReadTokens: 512 });
  });

  test("OpenAI chat: a used-up quota is no rate limit", async () => {
    const error = {
      message: "You exceeded your current quota.",
      type: "insufficient_quota",
      code: "insufficient_quota",
    };
    front.fault = { kind: "status", status: 429, body: JSON.stringify({ error }) };
    expect((await failureOf(wires[2] as Wire)).failure).toMatchObject({ code: "provider_refused", retryable: false });
  });
});

describe("what a provider wants back", () => {
  const again = async (wire: Wire, ref?: string) => {
    const thoughts: string[] = [];
    const messages = [user("think first")];
    const first = await replyOf(open(wire), requestOf(messages, { onReasoning: (piece) => void thoughts.push(piece) }));
    expect(thoughts.join("")).toBe("Let me see.");
    // Through the log and back.
    const kept = JSON.parse(JSON.stringify(first)) as typeof first;
    const next = ref === undefined ? wire : { ...wire, model: ref };
    await replyOf(open(next), requestOf([...messages, ...answered(kept, () => "contents")]));
    return { body: arrived(), messages: front.seen.at(-1)?.body };
  };

  test("Anthropic: the signed thoughts, first and untouched, for the same model only", async () => {
    const wire = wires[0] as Wire;
    const { messages } = await again(wire);
    const assistant = (messages?.["messages"] as { role: string; content: { type: string }[] }[])[1];
    expect(assistant?.content.map(({ type }) => type)).toEqual(["thinking", "text", "tool_use"]);
    expect(assistant?.content[0]).toMatchObject({ thinking: "Let me see.", signature: "c2lnbmF0dXJl" });
    const other = await again(wire, "claude-opus-4-5");
    expect(other.body).not.toContain("Let me see.");
    expect(other.body).toContain("Now I know.");
  });

  test("Anthropic: the handbook and the newest message are marked for the cache", async () => {
    await replyOf(open(wires[0] as Wire), requestOf([user("say hello")]));
    expect(arrived().split('"cache_control":{"type":"ephemeral"}')).toHaveLength(3);
  });

  test("OpenAI Responses: nothing is stored there, and reasoning goes back as an item", async () => {
    const { body, messages } = await again(wires[1] as Wire);
    expect(messages).toMatchObject({ store: false, include: ["reasoning.encrypted_content"] });
    const types = (messages?.["input"] as { type?: string; role?: string }[]).map((item) => item.type ?? item.role);
    expect(types).toEqual(["developer", "user", "reasoning", "assistant", "function_call", "function_call_output"]);
    expect(body).not.toContain("item_reference");
  });

  test("OpenAI-compatible: thoughts between calls go back as they came", async () => {
    const { body } = await again(wires[3] as Wire);
    expect(body).toContain('"reasoning_content":"Let me see."');
  });
});

test("no request goes anywhere but where the key belongs", () => {
  // Only the defaults are wide: all are https, and nothing else is built in.
  for (const { baseURL } of Object.values(knownKinds)) expect(new URL(baseURL).protocol).toBe("https:");
});
