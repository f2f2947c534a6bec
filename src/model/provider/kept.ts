import { createHash } from "node:crypto";
import type { SharedV4ProviderOptions } from "@ai-sdk/provider";
import type { ModelRef } from "../../domain/agent.ts";
import type { PromptMessage } from "../model.ts";

/** What a provider gave with a reply and wants back, and the ids under which it is sent its calls. */

/**
 * Parts that a provider wants back unchanged (ids of calls, thinking signatures, encrypted reasoning), in their
 * original order; stored as `provider` of the reply. Text is not stored twice: a text part is the next `length`
 * characters of the reply.
 */
export type Kept = { ref: string; parts: KeptPart[] };
export type KeptPart = { options?: SharedV4ProviderOptions } & (
  | { type: "text"; length: number }
  | { type: "reasoning"; text: string }
  | { type: "call"; id?: string }
);

/** Mistral's API, and the chat templates of its models on other servers, accept only ids of nine letters and digits. */
const nine = /^[a-zA-Z0-9]{9}$/;
const wantsNine = /mistral|mixtral|ministral|codestral|devstral|magistral|pixtral/i;

/**
 * For a model: maps our ids of the calls in one message to the ids that it is sent. Its own ids, if this very model
 * made the calls: some APIs check their form, and some models are trained on it. Otherwise ours, 31 letters, digits and
 * `_`, which fit Anthropic (`[a-zA-Z0-9_-]+`) and OpenAI (at most 40, or 64).
 */
export const callIDs = (ref: ModelRef) => {
  const isFit = wantsNine.test(ref) ? (id: string) => nine.test(id) : undefined;
  return (message: PromptMessage | undefined): ReadonlyMap<string, string> => {
    if (message?.role !== "assistant" || message.calls.length === 0) return new Map();
    const own = ownIDs(message.provider as Kept | undefined, ref);
    // With two equal ids nobody could tell which result belongs to which call.
    const usable = own.length === message.calls.length && new Set(own).size === own.length && !own.includes("");
    return new Map(
      message.calls.map(({ callID }, at) => {
        const id = usable ? (own[at] ?? callID) : callID;
        return [callID, isFit?.(id) === false ? shortened(callID) : id];
      }),
    );
  };
};

const shortened = (callID: string): string => createHash("sha256").update(callID).digest("hex").slice(0, 9);

const ownIDs = (kept: Kept | undefined, ref: ModelRef): string[] =>
  kept?.ref === ref ? kept.parts.flatMap((part) => (part.type === "call" ? [part.id ?? ""] : [])) : [];
