import type { LanguageModelV4 } from "@ai-sdk/provider";

/** The kinds of provider that are supported, what calling each needs, and its package, which is loaded on first use. */

export type ProviderKind = "anthropic" | "openai" | "google" | "openrouter" | "openai-compatible";

/** Kinds that are also the ids of providers known without configuration. */
export type KnownKind = Exclude<ProviderKind, "openai-compatible">;

/** `keys`: the usual environment variables; the first one set counts. `model`: the default when only a key is set. */
export const knownKinds: Record<KnownKind, { name: string; baseURL: string; keys: string[]; model: string }> = {
  anthropic: {
    name: "Anthropic",
    baseURL: "https://api.anthropic.com/v1",
    keys: ["ANTHROPIC_API_KEY"],
    model: "claude-sonnet-5",
  },
  openai: { name: "OpenAI", baseURL: "https://api.openai.com/v1", keys: ["OPENAI_API_KEY"], model: "gpt-5.5" },
  google: {
    name: "Google",
    baseURL: "https://generativelanguage.googleapis.com/v1beta",
    keys: ["GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY"],
    model: "gemini-3.1-pro-preview",
  },
  openrouter: {
    name: "OpenRouter",
    baseURL: "https://openrouter.ai/api/v1",
    keys: ["OPENROUTER_API_KEY"],
    model: "anthropic/claude-sonnet-5",
  },
};

/** Everything needed to call one provider. */
export type Connection = {
  /** The id in model references. */
  id: string;
  kind: ProviderKind;
  baseURL: string;
  /** undefined: no key is sent; only `openai-compatible` may go without. */
  apiKey: string | undefined;
  /** The variable or file that the key came from, for messages to the operator. */
  keySource: string | null;
  headers: Record<string, string>;
  api: "responses" | "chat";
};

/** Passes every setting explicitly, so that the packages never read the environment on their own. */
export const loadLanguageModel = async (
  connection: Connection,
  modelID: string,
  fetch: typeof globalThis.fetch,
): Promise<LanguageModelV4> => {
  const { id, baseURL, headers } = connection;
  const apiKey = connection.apiKey ?? "";
  switch (connection.kind) {
    case "anthropic": {
      const { createAnthropic } = await import("@ai-sdk/anthropic");
      return createAnthropic({ baseURL, apiKey, headers, fetch })(modelID);
    }
    case "openai": {
      const { createOpenAI } = await import("@ai-sdk/openai");
      const openai = createOpenAI({ baseURL, apiKey, headers, fetch });
      return connection.api === "chat" ? openai.chat(modelID) : openai.responses(modelID);
    }
    case "google": {
      const { createGoogle } = await import("@ai-sdk/google");
      return createGoogle({ baseURL, apiKey, headers, fetch })(modelID);
    }
    case "openrouter": {
      const { createOpenRouter } = await import("@openrouter/ai-sdk-provider");
      const openrouter = createOpenRouter({ baseURL, apiKey, headers, fetch, compatibility: "strict" });
      return openrouter.chat(modelID, { usage: { include: true } });
    }
    case "openai-compatible": {
      const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
      const key = connection.apiKey === undefined ? {} : { apiKey: connection.apiKey };
      return createOpenAICompatible({ name: id, baseURL, headers, fetch, includeUsage: true, ...key })(modelID);
    }
  }
};
