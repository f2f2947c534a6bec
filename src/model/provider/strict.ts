import type { ToolSpec } from "../model.ts";
import type { Connection } from "../provider-kind.ts";

/**
 * Strict schemas: the provider lets its model write only arguments that fit the schema. OpenAI's and Anthropic's APIs
 * offer them for single tools. Every object has to be closed, and for OpenAI every property required: the model would
 * fill in optional ones with values that nobody meant. So a tool is strict only if it has no optional parameter at any
 * depth.
 */

type Schema = Record<string, unknown>;

/** The keywords that both APIs accept in a strict schema. */
const known = new Set(["type", "properties", "required", "items", "enum", "description", "additionalProperties"]);

const isSchema = (value: unknown): value is Schema =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const close = (schema: unknown): Schema | undefined => {
  if (!isSchema(schema) || Object.keys(schema).some((key) => !known.has(key))) return undefined;
  if (schema["type"] === "array") {
    const items = close(schema["items"]);
    return items && { ...schema, items };
  }
  if (schema["type"] !== "object") return typeof schema["type"] === "string" ? schema : undefined;
  const { properties = {}, required = [] } = schema;
  if (!isSchema(properties) || !Array.isArray(required)) return undefined;
  const closed: Record<string, unknown> = {};
  for (const [name, property] of Object.entries(properties)) {
    const inner = required.includes(name) ? close(property) : undefined;
    if (inner === undefined) return undefined;
    closed[name] = inner;
  }
  return { ...schema, properties: closed, additionalProperties: false };
};

/** Computed once for each tool, whose schema is the same object in all requests. */
const made = new WeakMap<object, { closed: Schema | undefined }>();

/** The schema with every object closed; undefined: it cannot be strict. */
export const closedSchema = ({ parameters }: ToolSpec): Schema | undefined => {
  const before = made.get(parameters) ?? { closed: close(parameters) };
  made.set(parameters, before);
  return before.closed;
};

export const hasStrict = ({ kind }: Connection): boolean => kind === "openai" || kind === "anthropic";

/** Whether a request was refused for its strict tools: the model supports none, or a limit on them was exceeded. */
export const refusesStrict = (error: unknown): boolean => {
  const { statusCode, message, responseBody } = error as Record<string, unknown>;
  const texts = [message, responseBody].map((text) => (typeof text === "string" ? text.slice(0, 20_000) : ""));
  const said = texts.join(" ");
  return (
    (statusCode === 400 || statusCode === 422) &&
    /\bstrict\b|schema|additionalProperties|function_parameters/i.test(said)
  );
};
