import type { Effort } from "../../protocol/field.ts";
import type { ModelRequest, Traits } from "../model.ts";
import type { Connection, ProviderKind } from "../provider-kind.ts";

/**
 * How hard a model is to think. The SDK's packages turn a level into their wire's words: a level where it has one, a
 * share of the output's tokens where it wants a budget.
 */

/** Models whose provider refuses the setting, or none whose server is known to take it. */
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

/** `said`: the operator's word on this model, `service`: on all; false: it takes none, whatever its name says. */
export const effortTrait = (
  kind: ProviderKind,
  modelID: string,
  said: Effort | false | undefined,
  service: Effort | undefined,
): Pick<Traits, "effort"> => {
  if (said === false || (said === undefined && !takes[kind](modelID.toLowerCase()))) return {};
  return { effort: { usual: said ?? service } };
};

/** The effort that a request is sent with; undefined: none is named, and the provider's default holds. */
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
  // From 5.6 on, chat completions take no tools together with reasoning.
  if (kind === "openai" && api === "chat" && request.tools.length > 0 && /^gpt-5\.([6-9]|\d\d)/.test(modelID))
    return undefined;
  const claude = kind === "anthropic" || (kind === "openrouter" && modelID.includes("claude"));
  return claude && !mayThink(modelID, request) ? undefined : level;
};

/**
 * The level, or the least above it that the model takes, where the SDK's package does not know: their providers refuse
 * the others. undefined: it has one level alone.
 */
const leastFor = (name: string, level: Effort, kind: ProviderKind): Effort | undefined => {
  if (kind === "openai" && name.startsWith("gpt-5-pro")) return undefined;
  if (kind === "openai" && /^gpt-5\.\d+-pro/.test(name)) return level === "none" || level === "low" ? "medium" : level;
  const always = (kind === "openai" && /^(ft:)?(o\d|codex|gpt-5.*-codex)/.test(name)) || name.includes("gpt-oss");
  return always && level === "none" ? "low" : level;
};

/** Models that think within a budget; later ones decide for themselves. */
const budgeted = /claude-(3[-.]7|(opus|sonnet|haiku)-4([-.][015])?(-\d{8})?$)/;

/**
 * Claude does not think where the tool is chosen for it; with a budget also not between calls that it made without, as
 * after a switch of models.
 */
const mayThink = (modelID: string, { toolChoice, messages }: ModelRequest): boolean => {
  if (toolChoice !== undefined) return false;
  const last = messages.findLast(({ role }) => role !== "tool");
  if (last?.role !== "assistant" || last.calls.length === 0 || !budgeted.test(modelID)) return true;
  return JSON.stringify(last.provider ?? null).includes('"type":"reasoning"');
};
