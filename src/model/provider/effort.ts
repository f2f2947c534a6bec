import type { Effort } from "../../protocol/field.ts";
import type { ModelRequest, Traits } from "../model.ts";
import type { Connection, ProviderKind } from "../provider-kind.ts";

/**
 * The reasoning effort. The SDK's packages turn a level into the terms of each provider's API: a level where it has
 * levels, a share of the output tokens where it wants a budget.
 */

/**
 * Whether a model accepts the setting, by its name. For other models the provider refuses it; among `openai-compatible`
 * servers only those of these models are known to accept it.
 */
const takes: Record<ProviderKind, (name: string) => boolean> = {
  anthropic: (name) => !/claude-(instant|v?2|3-[05h]|3-(opus|sonnet))/.test(name),
  openai: (name) => /^(ft:)?(o[134]|gpt-[5-9]|codex)/.test(name) && !/^(o1-(mini|preview)|gpt-5-chat)/.test(name),
  google: (name) => /gemini-(2\.5|[3-9])/.test(name) && !name.includes("image"),
  openrouter: () => true,
  "openai-compatible": (name) =>
    /gpt-oss|magistral|qwen3(?!-coder|.*instruct)|deepseek-(r|v3\.[1-9]|v[4-9])|glm-(4\.[5-9]|[5-9])|thinking/.test(
      name,
    ),
};

/**
 * `said`: the operator's setting for this model, `service`: for all models; false: the model gets none, whatever its
 * name.
 */
export const effortTrait = (
  kind: ProviderKind,
  modelID: string,
  said: Effort | false | undefined,
  service: Effort | undefined,
): Pick<Traits, "effort"> => {
  if (said === false || (said === undefined && !takes[kind](modelID.toLowerCase()))) return {};
  return { effort: { usual: said ?? service } };
};

/** The effort that a request is sent with; undefined: none is sent, and the provider's default holds. */
export const effortFor = (
  { effort }: Traits,
  { kind, api }: Connection,
  modelID: string,
  request: ModelRequest,
): Effort | undefined => {
  if (effort === undefined) return undefined;
  const asked = request.effort ?? effort.usual;
  if (asked === undefined) return undefined;
  const level = leastFor(modelID.toLowerCase(), asked, kind);
  if (level === undefined || level === "none") return level;
  // From GPT-5.6 on, chat completions accept no tools together with reasoning.
  if (kind === "openai" && api === "chat" && request.tools.length > 0 && /^gpt-5\.([6-9]|\d\d)/.test(modelID))
    return undefined;
  const claude = kind === "anthropic" || (kind === "openrouter" && modelID.includes("claude"));
  return claude && !mayThink(modelID, request) ? undefined : level;
};

/**
 * The level, or the lowest above it that the model accepts, where the SDK's package does not know that: the provider
 * refuses any other. undefined: the model has only one level.
 */
const leastFor = (name: string, level: Effort, kind: ProviderKind): Effort | undefined => {
  if (kind === "openai" && name.startsWith("gpt-5-pro")) return undefined;
  if (kind === "openai" && /^gpt-5\.\d+-pro/.test(name)) return level === "none" || level === "low" ? "medium" : level;
  const always = (kind === "openai" && /^(ft:)?(o\d|codex|gpt-5.*-codex)/.test(name)) || name.includes("gpt-oss");
  return always && level === "none" ? "low" : level;
};

/** Claude models that think within a budget; later ones decide for themselves. */
const budgeted = /claude-(3[-.]7|(opus|sonnet|haiku)-4([-.][015])?(-\d{8})?$)/;

/**
 * Claude does not think when the tool is chosen for it. With a budget it does not think between calls either if they
 * were made without thinking, as after a switch of models.
 */
const mayThink = (modelID: string, { toolChoice, messages }: ModelRequest): boolean => {
  if (toolChoice !== undefined) return false;
  const last = messages.findLast(({ role }) => role !== "tool");
  if (last?.role !== "assistant" || last.calls.length === 0 || !budgeted.test(modelID)) return true;
  return JSON.stringify(last.provider ?? null).includes('"type":"reasoning"');
};
