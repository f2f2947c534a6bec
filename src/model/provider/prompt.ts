import type { LanguageModelV4FunctionTool, LanguageModelV4Message, LanguageModelV4Prompt } from "@ai-sdk/provider";
import type { ModelRef } from "../../domain/agent.ts";
import { isNestedWithin } from "../../json.ts";
import type { Connection, ProviderKind } from "../provider-kind.ts";
import { callIDs, type Kept } from "./kept.ts";
import type { ModelReply, ModelRequest, PromptFile, PromptMessage, Traits } from "../model.ts";
import { closedSchema } from "./strict.ts";

/**
 * Converts our conversation to a provider's prompt. The same conversation gives the same bytes, so that the provider's
 * prefix cache works.
 */

type Assistant = Extract<PromptMessage, { role: "assistant" }>;
type Content<Role> = Extract<LanguageModelV4Message, { role: Role }>["content"];

/** Bytes. An event holds at most 64 KiB; larger parts are dropped, and the model continues without its reasoning. */
const keptBytes = 32_768;

export const storableParts = (kept: Kept): ModelReply["provider"] | undefined => {
  const needed = kept.parts.some((part) => part.options !== undefined || part.type !== "text");
  if (!needed) return undefined;
  if (!isNestedWithin(kept)) return undefined;
  const json = JSON.stringify(kept);
  return Buffer.byteLength(json) > keptBytes ? undefined : (JSON.parse(json) as ModelReply["provider"]);
};

/** Each message is converted once: a conversation only grows at its end, and earlier messages never change. */
export const createPrompter = (ref: ModelRef, kind: ProviderKind, takes: Traits["takes"]) => {
  const turned = new WeakMap<PromptMessage, LanguageModelV4Message>();
  const idsOf = callIDs(ref);
  const turnOnce = (message: PromptMessage, at: number, all: readonly PromptMessage[]): LanguageModelV4Message => {
    const known =
      turned.get(message) ??
      turn(message, ref, takes, idsOf(message.role === "tool" ? callerOf(all.slice(0, at)) : message));
    turned.set(message, known);
    return known;
  };
  const marks = kind === "anthropic" || (kind === "openrouter" && ref.includes("/anthropic/"));
  return ({ system, messages }: ModelRequest): LanguageModelV4Prompt => {
    const said = messages.map(turnOnce).filter(({ content }) => content.length > 0);
    const prompt: LanguageModelV4Prompt = system === "" ? said : [{ role: "system", content: system }, ...said];
    return marks ? marked(prompt) : prompt;
  };
};

/**
 * Anthropic caches the prompt up to each of at most four marks. We mark the instructions (with the tools before them),
 * the newest message, and the one that ended the previous request, so that its prefix is found again.
 */
const marked = (prompt: LanguageModelV4Prompt): LanguageModelV4Prompt => {
  const ends = prompt.flatMap(({ role }, index) => (role === "user" || role === "tool" ? [index] : [])).slice(-2);
  return prompt.map((message, index) =>
    message.role === "system" || ends.includes(index)
      ? { ...message, providerOptions: { anthropic: { cacheControl: { type: "ephemeral" } } } }
      : message,
  );
};

/** The reply that the results after these messages belong to. */
const callerOf = (before: readonly PromptMessage[]): PromptMessage | undefined =>
  before.findLast(({ role }) => role === "assistant");

const turn = (
  message: PromptMessage,
  ref: string,
  takes: Traits["takes"],
  ids: ReadonlyMap<string, string>,
): LanguageModelV4Message => {
  switch (message.role) {
    case "user": {
      const text = message.text.trim() === "" ? [] : [{ type: "text" as const, text: message.text }];
      return { role: "user", content: [...text, ...message.files.flatMap((file) => fileParts(file, takes))] };
    }
    case "assistant":
      return { role: "assistant", content: assistantParts(message, ref, ids) };
    case "tool":
      return {
        role: "tool",
        content: message.results.map(({ callID, tool, outcome, output }) => ({
          type: "tool-result",
          toolCallId: ids.get(callID) ?? callID,
          toolName: tool,
          // Some providers refuse an empty result.
          output: { type: outcome === "ok" ? "text" : "error-text", value: output === "" ? "(no output)" : output },
        })),
      };
  }
};

/** The provider's own parts, if this very model produced them and they still fit the message; else plain ones. */
const assistantParts = (message: Assistant, ref: string, ids: ReadonlyMap<string, string>): Content<"assistant"> => {
  const kept = message.provider as Kept | undefined;
  const calls = message.calls.map(({ callID, tool, input }) => ({
    type: "tool-call" as const,
    toolCallId: ids.get(callID) ?? callID,
    toolName: tool,
    input: typeof input === "object" && input !== null && !Array.isArray(input) ? input : { arguments: input },
  }));
  const plain = message.text.trim() === "" ? [] : [{ type: "text" as const, text: message.text }];
  if (kept?.ref !== ref) return [...plain, ...calls];
  const length = kept.parts.reduce((sum, part) => sum + (part.type === "text" ? part.length : 0), 0);
  const called = kept.parts.filter((part) => part.type === "call").length;
  if (length !== message.text.length || called !== calls.length) return [...plain, ...calls];

  const parts: Content<"assistant"> = [];
  let at = 0;
  let next = 0;
  for (const part of kept.parts) {
    const own = part.options === undefined ? {} : { providerOptions: part.options };
    switch (part.type) {
      case "text":
        parts.push({ type: "text", text: message.text.slice(at, at + part.length), ...own });
        at += part.length;
        break;
      case "reasoning":
        parts.push({ type: "reasoning", text: part.text, ...own });
        break;
      case "call": {
        const call = calls[next];
        if (call !== undefined) parts.push({ ...call, ...own });
        next += 1;
        break;
      }
    }
  }
  return parts;
};

const images = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/** Characters of a text file included in the message; more would displace the conversation. */
const inlined = 100_000;

/** Files that the model can read are passed on, text is inlined, and any other file is left to its tools. */
const fileParts = (file: PromptFile, takes: Traits["takes"]): Content<"user"> => {
  const { filename, mime, bytes, path } = file;
  const type = mime.split(";")[0]?.trim().toLowerCase() ?? "";
  const where = path === undefined ? "" : `, the file ${path} in your working directory`;
  const title = `Attachment ${filename} (${mime})${where}:`;
  if ((takes.images && images.includes(type)) || (takes.pdf && type === "application/pdf"))
    return [
      { type: "text", text: title },
      { type: "file", filename, mediaType: type, data: { type: "data", data: bytes } },
    ];
  const text = type === "application/pdf" ? undefined : textIn(bytes);
  if (text === undefined) {
    const instead = path === undefined ? "" : `; use the file ${path} in your working directory`;
    const words = `[Attachment ${filename} (${mime}, ${bytes.length} bytes) cannot be shown to you${instead}.]`;
    return [{ type: "text", text: words }];
  }
  const more = `\n[${text.length - inlined} more characters are not shown${path === undefined ? "" : "; read the file"}.]`;
  const rest = text.length > inlined ? more : "";
  return [{ type: "text", text: `${title}\n${text.slice(0, inlined)}${rest}` }];
};

const textIn = (bytes: Uint8Array): string | undefined => {
  if (bytes.includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
};

/**
 * `strict`: tools whose schema allows it are strict (strict.ts). OpenAI's Responses API makes every schema strict, and
 * each optional parameter required, unless it is told not to.
 */
export const toolsFor = (
  request: ModelRequest,
  { kind, api }: Connection,
  strict: boolean,
): LanguageModelV4FunctionTool[] =>
  request.tools.map((tool) => {
    const { name, description, parameters } = tool;
    const closed = strict ? closedSchema(tool) : undefined;
    const told = closed !== undefined || (kind === "openai" && api === "responses");
    return {
      type: "function",
      name,
      description,
      inputSchema: closed ?? parameters,
      ...(told ? { strict: closed !== undefined } : {}),
    };
  });
