import type { ModelTrial } from "../protocol/service.ts";
import type { Model, ModelFailure } from "./model.ts";
import { noUsage } from "./model.ts";

/** One real call that shows whether a model answers, how fast, and whether it can use tools. */

const word = "ready";
const tool = {
  name: "report",
  description: "Reports one word to the user.",
  parameters: {
    type: "object",
    properties: { word: { type: "string", description: "The word." } },
    required: ["word"],
    additionalProperties: false,
  },
};

export const tryModel = async (model: Model, withinMs: number): Promise<ModelTrial> => {
  const began = performance.now();
  const since = () => Math.round(performance.now() - began);
  let firstMs: number | null = null;
  const signal = AbortSignal.timeout(withinMs);
  const late: ModelFailure = {
    ok: false,
    failure: {
      code: "provider_unavailable",
      message: `${model.ref} did not finish within ${withinMs / 1000} s.`,
      retryable: true,
      remedy: null,
    },
    usage: noUsage,
  };
  const request = {
    system: "You are being tried out. Do exactly what you are asked, and nothing else.",
    messages: [
      {
        role: "user" as const,
        messageID: "msg_trial",
        source: "sortie",
        text: `Call the tool ${tool.name} once, with the word "${word}".`,
        files: [],
      },
    ],
    tools: [tool],
    facts: { checks: [], detected: {} },
    task: "trial",
    signal,
    onFirst: () => {
      firstMs = since();
    },
    onText: () => {},
    onReasoning: () => {},
  };
  const reply = await model.reply(request).catch((error: unknown) => {
    if (signal.aborted) return late;
    throw error;
  });
  const totalMs = since();
  const common = { ref: model.ref, firstMs, totalMs, usage: reply.usage };
  if (!reply.ok) return { ...common, ok: false, tools: "unknown", text: "", failure: reply.failure };
  const tools = toolsOf(reply.calls);
  return { ...common, ok: tools === "worked", tools, text: reply.text.slice(0, 2_000), failure: null };
};

const toolsOf = (calls: readonly { tool: string; input: unknown; invalid?: string }[]): ModelTrial["tools"] => {
  const [call, ...more] = calls;
  if (call === undefined) return "not called";
  const { input, invalid } = call;
  const said = typeof input === "object" && input !== null && "word" in input ? input.word : undefined;
  const right = call.tool === tool.name && invalid === undefined && more.length === 0;
  return right && typeof said === "string" && said.toLowerCase().includes(word) ? "worked" : "called wrongly";
};
