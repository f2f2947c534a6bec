import { isTextNestedWithin } from "../../json.ts";
import { inThread, type Job, ThreadLimit } from "../../thread.ts";

/**
 * What is heard of a server: answers to what it was asked, cut to what is made of them, and a few questions, which the
 * library refuses. How much a message holds is the server's choice, and whatever looks through it (schemas, first of
 * all) takes a multiple of that: so it is cut before, and a long one is read in a thread.
 */

/** `text`: JSON of what is left; `asks`: how many questions are among it. null: nothing is. */
export type Heard = { text: string; asks: number } | { problem: string } | null;

const mostLevels = 100;
/** Of what a call gives; more are counted. */
const mostBlocks = 256;
/** In one answer. */
const mostTools = 1000;
const mostOfBatch = 16;
/** Parts of a schema, and of an answer that is none to a call or for tools: more than any that is used. */
const mostParts = 2000;
const longestError = 10_000;
/** Beyond it a text is not indented for its reader. */
const longestIndented = 20_000;
/** Shorter ones are read at once. */
const shortest = 64 * 1024;

type Fields = Record<string, unknown>;

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const heardOf = (text: string): Heard => {
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

/** As one text, which is all that is shown of a call. What stands in `structuredContent` alone is shown, too. */
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

/** Whether a value has few parts, whatever their length; looks at no more of it than that. */
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
export const messageJob: Job<string, Heard> = { name: "mcp-message", run: heardOf };

export const hear = (text: string): Heard | Promise<Heard> =>
  text.length <= shortest
    ? heardOf(text)
    : inThread(messageJob, text).catch((error: unknown) => {
        if (error instanceof ThreadLimit) return { problem: "it sent a message that takes too long to read" };
        throw error;
      });
