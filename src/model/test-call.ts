import { ServiceError } from "../error.ts";
import type { ModelTrial } from "../protocol/service.ts";
import { type Model, type ModelFailure, noUsage } from "./model.ts";
import { builtinModel, type Registry } from "./registry.ts";

/** Makes one real call that shows whether a model answers, how fast, and whether it can use tools. */

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

const perMinute = 10;

const longestMs = 60_000;

export type Trials = (ref: string | undefined) => Promise<ModelTrial>;

export const createModelTests = ({
  registry,
  replySeconds,
  redact,
  now = Date.now,
}: {
  registry: Pick<Registry, "resolve" | "load">;
  replySeconds: number;
  /** Removes secrets: providers quote what they were sent, keys included. */
  redact: (text: string) => string;
  now?: () => number;
}): Trials => {
  const running = new Set<string>();
  /** Start times of the last minute's trials, oldest first. */
  let begun: number[] = [];
  return async (given) => {
    const ref = registry.resolve(given);
    if (ref === builtinModel)
      throw new ServiceError(
        "model_not_configured",
        `${builtinModel} is not a language model: there is nothing to test. Name one as provider/model.`,
      );
    if (running.has(ref)) throw busy(`one test of ${ref} at a time`, 2);
    const at = now();
    begun = begun.filter((time) => time <= at && at - time < 60_000);
    const [oldest] = begun;
    if (oldest !== undefined && begun.length >= perMinute)
      throw busy(
        `at most ${perMinute} tests of models a minute`,
        Math.max(1, Math.ceil((oldest + 60_000 - at) / 1000)),
      );
    begun.push(at);
    running.add(ref);
    try {
      const trial = await tryModel(await registry.load(ref), Math.min(longestMs, replySeconds * 1000));
      const { failure } = trial;
      return {
        ...trial,
        text: redact(trial.text),
        failure: failure === null ? null : { ...failure, message: redact(failure.message) },
      };
    } finally {
      running.delete(ref);
    }
  };
};

const busy = (rule: string, seconds: number): ServiceError =>
  new ServiceError("rate_limited", `Expected ${rule}, got one more. Each is a real call. Try again in ${seconds} s.`, {
    headers: { "retry-after": String(seconds) },
  });
