import { setImmediate as tick } from "node:timers/promises";
import type {
  LanguageModelV4CallOptions,
  LanguageModelV4FinishReason,
  LanguageModelV4Prompt,
  LanguageModelV4StreamPart,
  SharedV4ProviderMetadata,
} from "@ai-sdk/provider";
import type { Effort } from "../../protocol/field.ts";
import type { ModelRef } from "../../domain/agent.ts";
import type { FetchWrapper } from "../replay/cassette.ts";
import { cutShort, failureOf, refused } from "./failure.ts";
import { createFetch, type Patience } from "./fetch.ts";
import { type Connection, loadLanguageModel } from "../provider-kind.ts";
import type { Model, ModelFailure, ModelReply, ModelRequest, Traits } from "../model.ts";
import { parsed } from "./arguments.ts";
import { effortFor } from "./effort.ts";
import { createPrompter, storableParts, toolsFor } from "./prompt.ts";
import type { KeptPart } from "./kept.ts";
import { hasStrict, refusesStrict } from "./strict.ts";
import { noTokens, priceOf, reportedCost, tokensOf } from "./cost.ts";
import { loadOnce } from "../../async/load-once.ts";

export type ProviderOptions = {
  patience?: Patience;
  /** The model reference to report, where it is not `<connection id>/<model>`. */
  ref?: ModelRef;
  tape?: FetchWrapper;
};

const defaultPatience: Patience = { firstMs: 180_000, silentMs: 120_000, replyMs: 1_800_000 };

/** The reason for closing a connection. Made once: the default creates an error with a stack trace for each reply. */
const over = new Error("The reply is over.");

/**
 * A model of one provider, called through the AI SDK's provider interface: one HTTP request per reply, without retries.
 * Only when the provider refuses strict schemas is the request sent again without them, once in the model's life. The
 * package is loaded with the first reply.
 */
export const createProviderModel = (
  connection: Connection,
  modelID: string,
  traits: Traits,
  options: ProviderOptions = {},
): Model => {
  const ref: ModelRef = options.ref ?? `${connection.id}/${modelID}`;
  const fetch = createFetch(new URL(connection.baseURL).origin, options.patience ?? defaultPatience);
  const promptFor = createPrompter(ref, connection.kind, traits.takes);
  const failing = { connection, modelID, now: Date.now };
  const untaped = loadOnce(() => loadLanguageModel(connection, modelID, fetch));

  let takesStrict = hasStrict(connection);

  const call = async (request: ModelRequest, abortSignal: AbortSignal): Promise<ModelReply | ModelFailure> => {
    const gathered = gather(request, abortSignal);
    const strict = takesStrict;
    const effort = effortFor(traits, connection, modelID, request);
    try {
      const { tape } = options;
      const taped = tape && loadLanguageModel(connection, modelID, tape(fetch, request.task ?? "call"));
      const model = await (taped ?? untaped());
      const { stream } = await model.doStream(
        callOptions(request, promptFor(request), connection, { effort, strict, abortSignal }),
      );
      // Not `for await`, whose end would wait for the connection to close.
      const reader = stream.getReader();
      for (let part = await reader.read(); !part.done; part = await reader.read()) gathered.take(part.value);
    } catch (error) {
      gathered.fail(error);
    }
    const { finish, usage, error } = gathered;
    const spent = { ...usage, costUSD: await priceOf(gathered.reported, usage, connection, modelID) };
    if (error !== undefined && strict && refusesStrict(error.value)) {
      takesStrict = false;
      return call(request, abortSignal);
    }
    if (error !== undefined) return { ...failureOf(error.value, failing), usage: spent };
    const outcome = outcomeOf(finish, gathered.calls.length > 0, connection.id);
    if (typeof outcome !== "string") return { ...outcome, usage: spent };
    const calls: ModelReply["calls"] = [];
    for (const { tool, input } of gathered.calls) {
      // Otherwise all calls that have arrived would be parsed in one turn of the event loop, and each may be long.
      await tick();
      calls.push({ tool, ...parsed(tool, input, outcome === "length") });
    }
    await tick();
    const provider = storableParts({ ref, parts: kept(gathered.parts, connection, calls.length > 0) });
    return {
      ok: true,
      text: gathered.text,
      calls,
      finish: outcome,
      usage: spent,
      ...(effort === undefined ? {} : { effort }),
      ...(provider === undefined ? {} : { provider }),
    };
  };

  return {
    ref,
    retries: true,
    ...traits,
    async reply(request) {
      request.signal.throwIfAborted();
      // An abort returns control to the caller at once; the connection is closed in every case.
      const line = new AbortController();
      const { promise: aborted, reject } = Promise.withResolvers<never>();
      const abort = () => {
        reject(request.signal.reason);
        line.abort(over);
      };
      request.signal.addEventListener("abort", abort, { once: true });
      try {
        return await Promise.race([call(request, line.signal), aborted]);
      } finally {
        request.signal.removeEventListener("abort", abort);
        line.abort(over);
      }
    },
  };
};

const callOptions = (
  request: ModelRequest,
  prompt: LanguageModelV4Prompt,
  connection: Connection,
  { effort, strict, abortSignal }: { effort: Effort | undefined; strict: boolean; abortSignal: AbortSignal },
): LanguageModelV4CallOptions => {
  const { kind } = connection;
  const tools = toolsFor(request, connection, strict);
  return {
    prompt,
    ...(tools.length === 0 ? {} : { tools }),
    ...(request.toolChoice === undefined ? {} : { toolChoice: { type: "tool", toolName: request.toolChoice } }),
    abortSignal,
    // OpenRouter's package knows the setting only under a name of its own.
    ...(effort === undefined || kind === "openrouter" ? {} : { reasoning: effort }),
    ...(effort !== undefined && kind === "openrouter"
      ? { providerOptions: { openrouter: { reasoning: { effort } } } }
      : {}),
    // Nothing is stored at the provider: reasoning comes back encrypted, and we send it again. We ask for no summaries
    // of it, because not every account may.
    ...(kind === "openai" ? { providerOptions: { openai: { ...unstored, ...cached(request) } } } : {}),
  };
};

const unstored = { store: false, reasoningSummary: null };

/** Routes the requests of a session to the server that has cached their beginning. */
const cached = ({ session }: ModelRequest) => (session === undefined ? {} : { promptCacheKey: session });

/** Assembles the parts of a stream. */
const gather = (request: ModelRequest, line: AbortSignal) => {
  const parts: KeptPart[] = [];
  /** Blocks that have begun but not ended. */
  const blocks = new Map<string, KeptPart>();
  const args = new Map<string, string>();
  const tools = new Map<string, string>();
  const open = (type: "text" | "reasoning", id: string): KeptPart => {
    const key = `${type} ${id}`;
    const part = blocks.get(key) ?? (type === "text" ? { type, length: 0 } : { type, text: "" });
    if (!blocks.has(key)) parts.push(part);
    blocks.set(key, part);
    return part;
  };
  let answering = false;
  let begun = false;
  const first = () => {
    if (!begun) request.onFirst?.();
    begun = true;
  };
  const state = {
    text: "",
    calls: [] as { tool: string; input: string }[],
    parts,
    finish: undefined as LanguageModelV4FinishReason | undefined,
    usage: noTokens,
    /** Cost as reported by the provider; only OpenRouter does. */
    reported: undefined as number | undefined,
    error: undefined as { value: unknown } | undefined,
    fail(value: unknown) {
      // The first error is the cause; later ones follow from it.
      state.error ??= { value };
    },
    take(part: LanguageModelV4StreamPart) {
      if (line.aborted) return;
      // The package itself emits "stream-start", before any byte has arrived.
      if (!answering && part.type !== "stream-start" && part.type !== "error") {
        answering = true;
        request.onBegin?.();
      }
      switch (part.type) {
        case "text-start":
          merge(open("text", part.id), part.providerMetadata);
          break;
        case "text-end":
          merge(open("text", part.id), part.providerMetadata);
          blocks.delete(`text ${part.id}`);
          break;
        case "text-delta": {
          first();
          const into = open("text", part.id);
          merge(into, part.providerMetadata);
          if (part.delta === "" || into.type !== "text") break;
          into.length += part.delta.length;
          state.text += part.delta;
          request.onText(part.delta);
          break;
        }
        case "reasoning-start":
          merge(open("reasoning", part.id), part.providerMetadata);
          break;
        case "reasoning-end":
          merge(open("reasoning", part.id), part.providerMetadata);
          blocks.delete(`reasoning ${part.id}`);
          break;
        case "reasoning-delta": {
          first();
          const into = open("reasoning", part.id);
          merge(into, part.providerMetadata);
          if (part.delta === "" || into.type !== "reasoning") break;
          into.text += part.delta;
          request.onReasoning(part.delta);
          break;
        }
        case "tool-call": {
          first();
          const into: KeptPart = { type: "call", id: part.toolCallId };
          merge(into, part.providerMetadata);
          parts.push(into);
          // One package passes unparsable text on as "{}"; the model must see what it actually wrote.
          const written = args.get(part.toolCallId) ?? "";
          const input = part.input === "{}" && written.trim() !== "" ? written : part.input;
          state.calls.push({ tool: part.toolName, input });
          break;
        }
        case "tool-input-start":
          tools.set(part.id, part.toolName);
          break;
        case "tool-input-delta": {
          first();
          args.set(part.id, (args.get(part.id) ?? "") + part.delta);
          const tool = tools.get(part.id);
          if (tool !== undefined) request.onInput?.({ id: part.id, tool }, part.delta);
          break;
        }
        case "finish":
          state.finish = part.finishReason;
          state.usage = tokensOf(part.usage);
          state.reported = reportedCost(part.providerMetadata);
          break;
        case "error":
          state.fail(part.error);
          break;
        // Not used: we request no tools of the provider's own.
        case "stream-start":
        case "response-metadata":
        case "tool-input-end":
        case "tool-result":
        case "tool-approval-request":
        case "custom":
        case "file":
        case "reasoning-file":
        case "source":
        case "ping":
        case "raw":
          break;
      }
    },
  };
  return state;
};

const merge = (part: KeptPart, metadata: SharedV4ProviderMetadata | undefined): void => {
  for (const [provider, values] of Object.entries(metadata ?? {})) {
    const given = Object.entries(values ?? {}).filter(([, value]) => value != null);
    if (given.length === 0) continue;
    part.options ??= {};
    part.options[provider] = {
      ...part.options[provider],
      ...Object.fromEntries(given),
    };
  }
};

/** Reasoning is sent back where the provider signed it, or where its models expect it between their calls. */
const kept = (parts: readonly KeptPart[], { kind }: Connection, called: boolean): KeptPart[] =>
  parts.filter((part) => {
    switch (part.type) {
      case "text":
        return part.length > 0 || part.options !== undefined;
      case "reasoning":
        return part.options !== undefined || (kind === "openai-compatible" && called);
      case "call":
        return true;
    }
  });

const outcomeOf = (
  finish: LanguageModelV4FinishReason | undefined,
  called: boolean,
  id: string,
): ModelReply["finish"] | ModelFailure => {
  const done = called ? "calls" : "end";
  switch (finish?.unified) {
    case "stop":
      return done;
    case "tool-calls":
      return called ? "calls" : "empty";
    case "length":
      return "length";
    case "content-filter":
      return refused(`${id} withheld the reply: its content filter ended it (${finish.raw}).`, null);
    case "other":
      // A stream without the provider's own finish reason was cut off.
      return finish.raw === undefined ? cutShort(id) : done;
    case "error":
    case "interrupted":
    case undefined:
      return cutShort(id);
  }
};
