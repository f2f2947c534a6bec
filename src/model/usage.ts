import type { ModelUsage } from "../protocol/talk.ts";

/**
 * What a call cost. The price table ships with the package and is loaded on the first call; nothing is fetched.
 * `inputTokens` counts everything sent, the cached included; the cache's figures are parts of it.
 */

export type Tokens = Omit<ModelUsage, "costUSD">;

/** US dollars, null where the table does not know the model. `provider` is the table's name for who is paid. */
export const costOf = async (tokens: Tokens, provider: string, model: string): Promise<number | null> => {
  if (provider === "builtin") return 0;
  const usage = {
    input_tokens: tokens.inputTokens,
    output_tokens: tokens.outputTokens,
    cache_read_tokens: tokens.cacheReadTokens,
    cache_write_tokens: tokens.cacheWriteTokens,
  };
  try {
    const { calcPrice } = await import("@pydantic/genai-prices");
    return calcPrice(usage, model, { providerId: provider })?.total_price ?? null;
  } catch {
    // The table refuses usage that it has no price for, such as cached tokens of a model without a cache.
    return null;
  }
};
