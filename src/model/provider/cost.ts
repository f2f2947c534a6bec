import type { LanguageModelV4Usage, SharedV4ProviderMetadata } from "@ai-sdk/provider";
import type { ModelUsage } from "../../protocol/event/conversation.ts";
import type { Connection } from "../provider-kind.ts";

/**
 * What a call cost. The price table ships with the package and is loaded on the first call; nothing is fetched.
 * `inputTokens` counts everything sent, cached tokens included; the cache's figures are parts of it.
 */

export type Tokens = Omit<ModelUsage, "costUSD">;

let table: typeof import("@pydantic/genai-prices") | undefined;

/** Configured models that the table does not have: searching all of it takes a fifth of a millisecond. */
const unpriced = new Set<string>();

/**
 * US dollars; null where the table does not know the model. `provider`: the table's name of the provider that is paid.
 */
export const costOf = async (tokens: Tokens, provider: string, model: string): Promise<number | null> => {
  if (provider === "builtin") return 0;
  const name = `${provider}/${model}`;
  if (unpriced.has(name)) return null;
  const usage = {
    input_tokens: tokens.inputTokens,
    output_tokens: tokens.outputTokens,
    cache_read_tokens: tokens.cacheReadTokens,
    cache_write_tokens: tokens.cacheWriteTokens,
  };
  try {
    table ??= await import("@pydantic/genai-prices");
    const price = table.calcPrice(usage, model, { providerId: provider });
    if (price === null) unpriced.add(name);
    return price?.total_price ?? null;
  } catch {
    // The table refuses usage that it has no price for, such as cached tokens of a model without a cache.
    return null;
  }
};

export const noTokens: Tokens = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 };

export const tokensOf = ({ inputTokens, outputTokens }: LanguageModelV4Usage): Tokens => ({
  inputTokens: inputTokens.total ?? 0,
  outputTokens: outputTokens.total ?? 0,
  cacheReadTokens: inputTokens.cacheRead ?? 0,
  cacheWriteTokens: inputTokens.cacheWrite ?? 0,
});

/** US dollars as reported by the provider; undefined: it reports none. */
export const reportedCost = (metadata: SharedV4ProviderMetadata | undefined): number | undefined => {
  const usage = metadata?.["openrouter"]?.["usage"] as { cost?: unknown } | undefined;
  return typeof usage?.cost === "number" ? usage.cost : undefined;
};

/** US dollars of a call: as reported, otherwise by the table. */
export const priceOf = async (
  reported: number | undefined,
  spent: Tokens,
  { id, kind }: Connection,
  modelID: string,
): Promise<number | null> => {
  if (reported !== undefined) return reported;
  if (spent.inputTokens === 0 && spent.outputTokens === 0) return 0;
  return costOf(spent, kind === "openai-compatible" ? id : kind, modelID);
};
