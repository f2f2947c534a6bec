import { isTextNestedWithin } from "../../json.ts";
import { inThread, type Job, ThreadLimit } from "../../thread.ts";

/**
 * Reduces a server's messages to the answers to our requests, cut to what is used of them, and a few questions, which
 * the library refuses. The server decides how much a message holds, and everything that traverses it (above all schema
 * validation) takes a multiple of that: so it is cut first, and a long message is read in a thread.
 */

/** `text`: the remaining JSON; `asks`: how many questions it contains. null: nothing remains. */
export type ReducedMessage = { text: string; asks: number } | { problem: string } | null;

const mostLevels = 100;
/** Content blocks of one call's result; further ones are only counted. */
const mostBlocks = 256;
/** Tools in one answer. */
const mostTools = 1000;
const mostOfBatch = 16;
/** Parts of a schema, and of an answer of any other kind: more than any that is in use. */
const mostParts = 2000;
const longestError = 10_000;
/** A longer text is not indented for its reader. */
const longestIndented = 20_000;
/** Shorter messages are read here rather than in a thread. */
const shortest = 64 * 1024;

type Fields = Record<string, unknown>;

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const heardOf = (text: string): ReducedMessage => {
  if (!isTextNestedWithin(text, mostLevels)) return { problem: `it sent a message of more than ${mostLevels} levels` };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const left = (Array.isArray(value) ? value.slice(0, mostOfBatch) : [value]).flatMap(messageOf);
  if (left.length === 0) return null;
  const asks = left.filter((message) => "method" in message).length;
  return { text: JSON.stringify(Array.isArray(value) ? left : left[0]), asks };
};

const messageOf = (value: unknown): Fields[] => {
  if (!isFields(value)) return [];
  const { id, method, result, error } = value;
  if (typeof id !== "string" && typeof id !== "number") return [];
  const about = { jsonrpc: "2.0", id };
  if (typeof method === "string") return [{ ...about, method: method.slice(0, 100) }];
  if (isFields(error)) {
    const message = typeof error["message"] === "string" ? error["message"].slice(0, longestError) : "";
    return [{ ...about, error: { code: typeof error["code"] === "number" ? error["code"] : -32_000, message } }];
  }
  return isFields(result) ? [{ ...about, result: resultOf(result) }] : [];
};

const resultOf = (result: Fields): Fields => {
  const { content, structuredContent, tools, isError, nextCursor } = result;
  if (Array.isArray(content) || structuredContent !== undefined)
    return {
      content: [{ type: "text", text: shownOf(Array.isArray(content) ? content : [], structuredContent) }],
      isError: isError === true,
    };
  if (Array.isArray(tools))
    return {
      tools: (tools as unknown[]).slice(0, mostTools).map(toolOf),
      ...(nextCursor === undefined ? {} : { nextCursor }),
    };
  return isSmall(result) ? result : {};
};

/**
 * The content as one text, which is all that is shown of a call. Content that is only in `structuredContent` is shown,
 * too.
 */
const shownOf = (content: readonly unknown[], structured: unknown): string => {
  const left = content.length - mostBlocks;
  const more = left > 0 ? [`[${left} more parts, not shown]`] : [];
  const shown = [...content.slice(0, mostBlocks).map(textOf), ...more].join("\n");
  if (shown !== "" || structured === undefined) return shown;
  const text = JSON.stringify(structured);
  return text.length > longestIndented ? text : JSON.stringify(structured, null, 2);
};

const textOf = (block: unknown): string => {
  const { type, text, data, mimeType, uri, name, resource } = fieldsOf(block);
  switch (type) {
    case "text":
      return wordOf(text);
    case "image":
    case "audio":
      return `[${type}, ${wordOf(mimeType)}, ${Math.floor(wordOf(data).length * 0.75)} bytes, not shown]`;
    case "resource_link":
      return `[link to ${wordOf(uri)}${wordOf(name) === "" ? "" : `, ${wordOf(name)}`}]`;
    case "resource": {
      const { uri: at, text: inner } = fieldsOf(resource);
      return typeof inner === "string" ? inner : `[${wordOf(at)}, not shown]`;
    }
    default:
      return "[a part of an unknown kind, not shown]";
  }
};

const fieldsOf = (value: unknown): Fields => (isFields(value) ? value : {});
const wordOf = (value: unknown): string => (typeof value === "string" ? value : "");

const toolOf = (tool: unknown): unknown => {
  if (!isFields(tool)) return tool;
  const { name, description, inputSchema } = tool;
  const kept = isSmall(inputSchema) ? inputSchema : { type: "object" };
  return { name, ...(description === undefined ? {} : { description }), inputSchema: kept };
};

/** Whether a value has few parts, whatever their length; stops looking once there are too many. */
const isSmall = (value: unknown): boolean => {
  const open: unknown[] = [value];
  let parts = 0;
  for (let next = open.pop(); open.length > 0 || next !== undefined; next = open.pop()) {
    if (typeof next !== "object" || next === null) continue;
    for (const key in next) {
      if ((parts += 1) > mostParts) return false;
      open.push((next as Fields)[key]);
    }
  }
  return true;
};

/** Runs in a thread for long texts. */
export const messageJob: Job<string, ReducedMessage> = { name: "mcp-message", run: heardOf };

export const reduceMessage = (text: string): ReducedMessage | Promise<ReducedMessage> =>
  text.length <= shortest
    ? heardOf(text)
    : inThread(messageJob, text).catch((error: unknown) => {
        if (error instanceof ThreadLimit) return { problem: "it sent a message that takes too long to read" };
        throw error;
      });
