import type { ProviderKind } from "../provider-kind.ts";
import type { Effort } from "../../protocol/field.ts";
import type { Traits } from "../model.ts";
import { effortTrait } from "./effort.ts";
import { publishedWindow } from "./window.ts";

/**
 * What a model can read: as the operator says; otherwise the window by the table that ships with the prices, and images
 * and PDFs by the provider's kind and the model's name. Unknown traits get the safer guess: a window that is too small
 * costs an early compaction, but an image sent to a model that cannot read it costs the Task.
 */

/** A model in the operator's configuration; an absent field gets the known value. */
export type ModelEntry = {
  id: string;
  contextWindow?: number | undefined;
  images?: boolean | undefined;
  pdf?: boolean | undefined;
  tools?: boolean | undefined;
  /** The reasoning effort where neither Task nor agent names one; false: the model accepts none. */
  effort?: Effort | false | undefined;
};

/** Default window in tokens. Local servers often run with a small one, whatever the model supports. */
const windows: Record<ProviderKind, number> = {
  anthropic: 200_000,
  openai: 128_000,
  google: 1_000_000,
  openrouter: 64_000,
  "openai-compatible": 32_768,
};

const blind = /(^|\/)(gpt-3|gpt-4(-\d|$)|o1-mini|o1-preview|o3-mini|claude-(2|instant)|gemma-?[12]\b)/;
const seeing =
  /gpt-4o|gpt-4\.|gpt-5|(^|[/-])o[134]([-/]|$)|claude|gemini|gemma-?3|llama-?4|pixtral|mistral-small-3|llava|vision|moondream|minicpm-v|(^|[-\d.])vl([-:]|$)/;

export const traitsOf = async (
  kind: ProviderKind,
  modelID: string,
  entry: ModelEntry | undefined,
  service?: Effort,
): Promise<Traits> => {
  const name = modelID.toLowerCase();
  const bought = kind === "anthropic" || kind === "openai" || kind === "google";
  const images = !blind.test(name) && (bought || seeing.test(name));
  return {
    window: entry?.contextWindow ?? (await knownWindow(kind, modelID)) ?? windows[kind],
    takes: {
      images: entry?.images ?? images,
      // OpenRouter converts PDFs for models that cannot read them.
      pdf: entry?.pdf ?? (kind === "openrouter" || (bought && images)),
      tools: entry?.tools ?? true,
    },
    ...effortTrait(kind, modelID, entry?.effort, service),
  };
};

/** The window assumed for a model on somebody's own server, and why, in words for the operator. */
export const servedWindow = (
  provider: string,
  modelID: string,
  entry: ModelEntry | undefined,
): { window: number; because: string } => {
  if (entry?.contextWindow !== undefined) return { window: entry.contextWindow, because: "config.jsonc says so" };
  const published = publishedWindow(modelID);
  const id = JSON.stringify(modelID);
  const remedy = `if it was started with another one, say so in config.jsonc: providers.${provider}.models: [{ "id": ${id}, "contextWindow": … }]`;
  return published === undefined
    ? { window: windows["openai-compatible"], because: `its name is not known; ${remedy}` }
    : { window: published, because: `published for it; ${remedy}` };
};

const knownWindow = async (kind: ProviderKind, modelID: string): Promise<number | undefined> => {
  if (kind === "openai-compatible") return publishedWindow(modelID);
  const { calcPrice } = await import("@pydantic/genai-prices");
  try {
    return calcPrice({ input_tokens: 1 }, modelID, { providerId: kind })?.model.context_window;
  } catch {
    return undefined;
  }
};
