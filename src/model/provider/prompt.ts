import type {
  LanguageModelV4FunctionTool,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  SharedV4ProviderOptions,
} from "@ai-sdk/provider";
import type { ProviderKind } from "../provider-kind.ts";
import type { ModelReply, ModelRequest, PromptFile, PromptMessage, Traits } from "../model.ts";

/** From our conversation to a provider's prompt. The same conversation gives the same bytes, so that prefixes cache. */

type Assistant = Extract<PromptMessage, { role: "assistant" }>;
type Content<Role> = Extract<LanguageModelV4Message, { role: Role }>["content"];

/**
 * What a provider wants back as it gave it (thinking signatures, item ids, encrypted reasoning), in the order in which
 * it came, as `provider` of the reply. The text is not repeated: a text part is the next `length` characters of it.
 */
type Kept = { ref: string; parts: KeptPart[] };
export type KeptPart = { options?: SharedV4ProviderOptions } & (
  | { type: "text"; length: number }
  | { type: "reasoning"; text: string }
  | { type: "call" }
);

/** An event holds at most 64 KiB; more than this is not kept, and the model goes on without its own thoughts. */
const keptBytes = 32_768;

export const keep = (kept: Kept): ModelReply["provider"] | undefined => {
  const needed = kept.parts.some((part) => part.options !== undefined || part.type === "reasoning");
  if (!needed) return undefined;
  const json = JSON.stringify(kept);
  return Buffer.byteLength(json) > keptBytes ? undefined : (JSON.parse(json) as ModelReply["provider"]);
};

/** Each message is turned once: a conversation grows at its end only, and what was said is never changed. */
export const createPrompter = (ref: string, kind: ProviderKind, takes: Traits["takes"]) => {
  const turned = new WeakMap<PromptMessage, LanguageModelV4Message>();
  const turnOnce = (message: PromptMessage): LanguageModelV4Message => {
    const known = turned.get(message) ?? turn(message, ref, takes);
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
 * Anthropic caches what it is told to, at most four marks: the handbook (with the tools before it), and the conversation
 * up to the newest message and to the one that ended the request before, so that this prefix is found again.
 */
const marked = (prompt: LanguageModelV4Prompt): LanguageModelV4Prompt => {
  const ends = prompt.flatMap(({ role }, index) => (role === "user" || role === "tool" ? [index] : [])).slice(-2);
  return prompt.map((message, index) =>
    message.role === "system" || ends.includes(index)
      ? { ...message, providerOptions: { anthropic: { cacheControl: { type: "ephemeral" } } } }
      : message,
  );
};

const turn = (message: PromptMessage, ref: string, takes: Traits["takes"]): LanguageModelV4Message => {
  switch (message.role) {
    case "user": {
      const text = message.text.trim() === "" ? [] : [{ type: "text" as const, text: message.text }];
      return { role: "user", content: [...text, ...message.files.flatMap((file) => fileParts(file, takes))] };
    }
    case "assistant":
      return { role: "assistant", content: assistantParts(message, ref) };
    case "tool":
      return {
        role: "tool",
        content: message.results.map(({ callID, tool, outcome, output }) => ({
          type: "tool-result",
          toolCallId: callID,
          toolName: tool,
          // Some providers refuse an empty result.
          output: { type: outcome === "ok" ? "text" : "error-text", value: output === "" ? "(no output)" : output },
        })),
      };
  }
};

/** The provider's own order and options, if this very model made them and they still fit the message; else plain. */
const assistantParts = (message: Assistant, ref: string): Content<"assistant"> => {
  const kept = message.provider as Kept | undefined;
  const calls = message.calls.map(({ callID, tool, input }) => ({
    type: "tool-call" as const,
    toolCallId: callID,
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
/** Characters of a text file that go into the message; the rest would crowd out the conversation. */
const inlined = 100_000;

/** What the model takes is shown to it, text is written out, the rest is a file for its tools. */
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

export const toolsFor = (request: ModelRequest): LanguageModelV4FunctionTool[] =>
  request.tools.map(({ name, description, parameters }) => ({
    type: "function",
    name,
    description,
    inputSchema: parameters,
  }));
