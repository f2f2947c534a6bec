import { describe, expect, test } from "vitest";
import { arrived, failureOf, front, open, wires, type Wire, setUpModelLab } from "./lab.ts";
import { traitsOf } from "../../src/model/provider/trait.ts";
import type { Effort } from "../../src/protocol/field.ts";
import { noUsage } from "../../src/model/model.ts";
import { answered, replyOf, requestOf, user } from "./suite.ts";

setUpModelLab();

/** What only one kind of provider says, and what it wants back. */

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
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: anthropic.model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
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

  test.each([
    ["more characters than are taken", `{"text":"${"n".repeat(1024 * 1024)}"}`, "at most 1048576 characters, got"],
    ["more values than are taken", `{"text":[${"1,".repeat(20_000)}1]}`, "at most 20000 values, got more"],
    ["deeper than any stack", '{"a":'.repeat(150_000), "at most 20000 values, got more"],
    ["as many values as are taken", `{"text":[${"1,".repeat(19_997)}1]}`, undefined],
    [
      "as much text as is taken, of what would be values outside of it",
      `{"text":"${'{[,\\"'.repeat(200_000)}"}`,
      undefined,
    ],
  ])("Anthropic: arguments with %s", async (_, partial_json, invalid) => {
    stream([
      start,
      {
        type: "content_block_start",
        index: 0,
        content_block: { type: "tool_use", id: "toolu_1", name: "note", input: {} },
      },
      { type: "content_block_delta", index: 0, delta: { type: "input_json_delta", partial_json } },
      { type: "content_block_stop", index: 0 },
      ...end("tool_use"),
    ]);
    const [call] = (await replyOf(open(anthropic), requestOf([user("go")]))).calls;
    if (invalid === undefined) expect(call).toEqual({ tool: "note", input: JSON.parse(partial_json) });
    else expect(call).toEqual({ tool: "note", input: {}, invalid: expect.stringContaining(invalid) });
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
            input_tokens: 900,
            output_tokens: 60,
            output_tokens_details: { reasoning_tokens: 0 },
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
    return { body: arrived(), messages: front.seen.at(-1)?.body ?? {} };
  };

  test("Anthropic: the signed thoughts, first and untouched, for the same model only", async () => {
    const wire = wires[0] as Wire;
    const { messages } = await again(wire);
    const assistant = (messages["messages"] as { role: string; content: { type: string }[] }[])[1];
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

  test.each([wires[0] as Wire, wires[4] as Wire])(
    "$name: in a longer conversation the end of the request before is marked too, at most four marks",
    async (wire) => {
      const model = open(wire);
      const messages = [user("read two")];
      const prefix = (body: string) => body.replaceAll(/,?"cache_control":\{"type":"ephemeral"\}/g, "");
      const ends: string[] = [];
      for (let turn = 0; turn < 3; turn += 1) {
        const reply = await replyOf(model, requestOf(messages));
        const body = arrived();
        const marks = body.split('"cache_control":{"type":"ephemeral"}').length - 1;
        expect(marks).toBe(turn === 0 ? 2 : 3);
        // Byte for byte the same up to there, which is what the cache goes by.
        const now = prefix(JSON.stringify(front.seen.at(-1)?.body["messages"]));
        if (wire.kind === "anthropic")
          for (const before of ends) expect(now.startsWith(before.slice(0, -2))).toBe(true);
        ends.push(now);
        messages.push(...answered({ ...reply, calls: [{ tool: "read", input: { path: `${turn}.txt` } }] }, () => "x"));
      }
    },
  );

  test("Anthropic: with many tools and turns still no more than four", async () => {
    const messages = [user("read two")];
    for (let turn = 0; turn < 6; turn += 1)
      messages.push(
        ...answered(
          { ok: true, text: "on", finish: "calls", calls: [{ tool: "read", input: {} }], usage: noUsage },
          () => "x",
        ),
        user("say hello"),
      );
    await replyOf(open(wires[0] as Wire), requestOf(messages));
    expect(arrived().split("cache_control").length - 1).toBeLessThanOrEqual(4);
  });

  test("OpenAI Responses: nothing is stored there, and reasoning goes back as an item", async () => {
    const { body, messages } = await again(wires[1] as Wire);
    expect(messages).toMatchObject({ store: false, include: ["reasoning.encrypted_content"] });
    const types = (messages["input"] as { type?: string; role?: string }[]).map((item) => item.type ?? item.role);
    expect(types).toEqual(["developer", "user", "reasoning", "assistant", "function_call", "function_call_output"]);
    expect(body).not.toContain("item_reference");
  });

  test("OpenAI-compatible: thoughts between calls go back as they came", async () => {
    const { body } = await again(wires[3] as Wire);
    expect(body).toContain('"reasoning_content":"Let me see."');
  });
});

test.each([
  ["Anthropic", /"tool_choice":\{"type":"tool","name":"read"/],
  ["OpenAI Responses", /"tool_choice":\{"type":"function","name":"read"\}/],
  ["OpenAI chat", /"tool_choice":\{"type":"function","function":\{"name":"read"\}\}/],
  ["OpenAI-compatible", /"tool_choice":\{"type":"function","function":\{"name":"read"\}\}/],
  ["OpenRouter", /"tool_choice":\{"type":"function","function":\{"name":"read"\}\}/],
  ["Google", /"functionCallingConfig":\{"mode":"ANY","allowedFunctionNames":\["read"\]\}/],
])("%s: the tool that a reply has to call is named, and only where there is one", async (name, chosen) => {
  const wire = wires.find((each) => each.name === name) as Wire;
  await open(wire).reply(requestOf([user("say hello")], { toolChoice: "read" }));
  expect(arrived()).toMatch(chosen);
  await open(wire).reply(requestOf([user("say hello")]));
  expect(arrived()).not.toMatch(chosen);
});

describe("schemas of tools", () => {
  const parameters = (required: string[]) => ({
    type: "object",
    properties: {
      parts: { type: "array", items: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] } },
      note: { type: "string" },
    },
    required,
  });
  const tools = [
    { name: "whole", description: "All of it.", parameters: parameters(["parts", "note"]) },
    { name: "partly", description: "The note may be left out.", parameters: parameters(["parts"]) },
  ];
  /** What the tools of a body say of strictness, whether every object of theirs is closed, and what is required. */
  const told = (body: Record<string, unknown>) =>
    ((body["tools"] as { name?: string; strict?: boolean; function?: object }[]) ?? []).map((tool) => {
      const { name, strict, function: _, ...schema } = { ...tool, ...tool.function };
      return [name, strict, JSON.stringify(schema).split('"additionalProperties":false').length - 1];
    });

  test("are strict where the wire has that and nothing in them is optional; others stay as they are", async () => {
    for (const wire of wires) {
      await open(wire).reply(requestOf([user("say hello")], { tools }));
      const strict = wire.kind === "openai" || wire.kind === "anthropic";
      const loose = wire.name === "OpenAI Responses" ? false : undefined;
      const body = front.seen.at(-1)?.body ?? {};
      if (wire.kind === "google") expect(JSON.stringify(body)).not.toMatch(/VALIDATED|strict/);
      else
        expect([wire.name, told(body)]).toEqual([
          wire.name,
          [
            ["whole", strict ? true : undefined, strict ? 2 : 0],
            ["partly", loose, 0],
          ],
        ]);
    }
  });

  test.each(wires.filter(({ kind }) => kind === "openai"))(
    "$name: a model that refuses strict ones is asked without, once and from then on",
    async (wire) => {
      const model = open(wire);
      front.fault = {
        kind: "status",
        status: 400,
        body: JSON.stringify({
          error: { message: "Invalid schema for function 'whole': strict is not supported", code: null },
        }),
      };
      const refused = await model.reply(requestOf([user("say hello")], { tools }));
      // The fault is still there: the second request is the last.
      expect(refused).toMatchObject({ ok: false, failure: { code: "provider_refused" } });
      expect(front.seen.map(({ body }) => told(body)[0]?.[1] === true)).toEqual([true, false]);
      front.fault = undefined;
      const reply = await replyOf(model, requestOf([user("say hello")], { tools }));
      expect(reply.text).toContain("Hello");
      expect(told(front.seen.at(-1)?.body ?? {})[0]?.[1]).not.toBe(true);
    },
  );

  test("control: what is refused for another reason is asked once", async () => {
    const wire = wires.find(({ name }) => name === "OpenAI chat") as Wire;
    front.fault = {
      kind: "status",
      status: 400,
      body: JSON.stringify({ error: { message: "The image is too large" } }),
    };
    await open(wire).reply(requestOf([user("say hello")], { tools }));
    expect(front.seen).toHaveLength(1);
  });
});

describe("reasoning effort", () => {
  const sent = async (name: string, effort: Effort | undefined, more: { model?: string; toolChoice?: string } = {}) => {
    const { model, ...rest } = more;
    const wire = { ...(wires.find((each) => each.name === name) as Wire), ...(model === undefined ? {} : { model }) };
    const said = { ...rest, ...(effort === undefined ? {} : { effort }) };
    const reply = await replyOf(open(wire), requestOf([user("say hello")], said));
    return { body: front.seen.at(-1)?.body ?? {}, told: reply.effort };
  };

  test.each([
    ["OpenAI Responses", "high", { reasoning: { effort: "high" } }],
    ["OpenAI Responses", "none", { reasoning: { effort: "none" } }],
    ["OpenAI chat", "low", { reasoning_effort: "low" }, "gpt-5.4"],
    ["OpenAI-compatible", "medium", { reasoning_effort: "medium" }],
    ["OpenRouter", "high", { reasoning: { effort: "high" } }],
    ["Anthropic", "low", { thinking: { type: "enabled", budget_tokens: 6_400 } }],
    ["Anthropic", "none", { thinking: { type: "disabled" } }],
    ["Anthropic", "high", { thinking: { type: "adaptive" }, output_config: { effort: "high" } }, "claude-sonnet-4-6"],
    ["Google", "low", { generationConfig: { thinkingConfig: { thinkingBudget: 6_554 } } }],
    ["Google", "high", { generationConfig: { thinkingConfig: { thinkingLevel: "high" } } }, "gemini-3.1-pro-preview"],
  ] as const)("%s: %s in the wire's own words", async (name, effort, words, model?: string) => {
    const { body, told } = await sent(name, effort, model === undefined ? {} : { model });
    expect(body).toMatchObject(words);
    expect(told).toBe(effort);
  });

  test.each(wires)("control: $name gets no word of it where nobody asks", async ({ name }) => {
    const { body, told } = await sent(name, undefined);
    expect(JSON.stringify(body)).not.toMatch(/"(reasoning|reasoning_effort|thinking|thinkingConfig|effort)":/);
    expect(told).toBeUndefined();
  });

  test.each([
    ["OpenAI Responses", "gpt-5-mini", { reasoning: { effort: "minimal" } }],
    ["OpenAI Responses", "gpt-5.1-codex", { reasoning: { effort: "low" } }],
    ["OpenAI Responses", "gpt-5.2-pro", { reasoning: { effort: "medium" } }],
    ["OpenAI Responses", "o3", { reasoning: { effort: "low" } }],
    ["OpenAI chat", "o4-mini", { reasoning_effort: "low" }],
    ["OpenAI-compatible", "gpt-oss:20b", { reasoning_effort: "low" }],
    ["Google", "gemini-2.5-pro", { generationConfig: { thinkingConfig: { thinkingBudget: 128 } } }],
    ["Google", "gemini-3-pro-preview", { generationConfig: { thinkingConfig: { thinkingLevel: "low" } } }],
  ] as const)("%s: %s cannot go without, and is asked for the least that it takes", async (name, model, words) => {
    expect((await sent(name, "none", { model })).body).toMatchObject(words);
  });

  test("a model with one level alone is told none", async () => {
    expect(await sent("OpenAI Responses", "low", { model: "gpt-5-pro" })).toMatchObject({ told: undefined });
    expect(front.seen.at(-1)?.body).not.toHaveProperty("reasoning.effort");
    expect(await sent("OpenAI Responses", "low", { model: "gpt-5.1" })).toMatchObject({ told: "low" });
  });

  test("Claude is not asked to think where the tool is chosen for it; others are", async () => {
    const choice = { toolChoice: "read" };
    expect((await sent("Anthropic", "high", choice)).body).not.toHaveProperty("thinking");
    expect((await sent("OpenAI Responses", "high", choice)).body).toMatchObject({ reasoning: { effort: "high" } });
  });

  test("with a budget, Claude is not asked to think between calls that another model made", async () => {
    const other = {
      ok: true,
      text: "",
      finish: "calls",
      calls: [{ tool: "read", input: {} }],
      usage: noUsage,
    } as const;
    const messages = [user("say hello"), ...answered({ ...other, calls: [...other.calls] }, () => "x")];
    const bodyOf = async (model: string) => {
      await open({ ...(wires[0] as Wire), model }).reply(requestOf(messages, { effort: "low" }));
      return front.seen.at(-1)?.body ?? {};
    };
    expect(await bodyOf("claude-sonnet-4-5")).not.toHaveProperty("thinking");
    expect(await bodyOf("claude-sonnet-4-6")).toMatchObject({ thinking: { type: "adaptive" } });
  });

  test.each([
    ["openai", "gpt-5.4", true],
    ["openai", "gpt-4.1", false],
    ["openai", "o3", true],
    ["anthropic", "claude-3-5-haiku-20241022", false],
    ["anthropic", "claude-3-7-sonnet-20250219", true],
    ["google", "gemini-2.0-flash", false],
    ["google", "gemini-3-flash", true],
    ["openai-compatible", "gpt-oss:20b", true],
    ["openai-compatible", "qwen3-coder:30b", false],
    ["openai-compatible", "large", false],
  ] as const)("%s %s takes it: %s; the operator's word counts before the name", async (kind, model, takes) => {
    const effortOf = async (said?: Effort | false) =>
      (await traitsOf(kind, model, said === undefined ? undefined : { id: model, effort: said }, "medium")).effort;
    expect(await effortOf()).toEqual(takes ? { usual: "medium" } : undefined);
    expect(await effortOf("high")).toEqual({ usual: "high" });
    expect(await effortOf(false)).toBeUndefined();
  });
});

test.each(wires)("$name: the beginning of an answer is told once, and that of a failure is none", async (wire) => {
  const begun: string[] = [];
  const told = { onBegin: () => void begun.push("begin"), onText: () => void begun.push("text") };
  await replyOf(open(wire), requestOf([user("say hello")], told));
  expect(begun.slice(0, 2)).toEqual(["begin", "text"]);
  expect(begun.filter((what) => what === "begin")).toHaveLength(1);
  begun.length = 0;
  front.fault = { kind: "status", status: 503, body: "{}" };
  await failureOf(wire, told);
  expect(begun).toEqual([]);
});

test.each(wires)("$name: the session names the cache where the wire has a key for it, and only there", async (wire) => {
  const keyOf = async (session?: string) => {
    await replyOf(open(wire), requestOf([user("say hello")], session === undefined ? {} : { session }));
    return front.seen.at(-1)?.body["prompt_cache_key"];
  };
  expect(await keyOf("ses_1")).toBe(wire.kind === "openai" ? "ses_1" : undefined);
  expect(await keyOf()).toBeUndefined();
});
