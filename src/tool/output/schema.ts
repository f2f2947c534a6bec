import { createRequire } from "node:module";
import { createContext, runInContext } from "node:vm";
import type { ErrorObject, ValidateFunction } from "ajv";
import { errorCode, messageOf } from "../../error.ts";
import { isNestedWithin } from "../../json.ts";
import type { Job } from "../../thread.ts";

/**
 * The caller's JSON Schema for a Task's output. A schema is foreign code: it is compiled, tried and run in a thread,
 * each within its own time limit.
 */

export const maxSchemaBytes = 64 * 1024;
export const maxOutputBytes = 256 * 1024;
const maxLevels = 24;
const maxPatterns = 200;
const maxPatternChars = 1000;

/** In ms. Each limits work that takes a few milliseconds, so that a busy machine still refuses nothing. */
const compileMs = 4000;
const tryMs = 1000;
const patternMs = [500, 1500];
const outputMs = 3000;

/** Why the schema cannot be used; null: it can be. Input and output are JSON texts. */
export const schemaReading: Job<string, string | null> = { name: "output-schema", run: (schema) => problemOf(schema) };

/** The problems of an output, one line each; empty: it matches the schema. */
export const outputReading: Job<{ schema: string; output: string }, string[]> = {
  name: "output",
  run: ({ schema, output }) => wrongWith(schema, output),
};

type Schema = Record<string, unknown>;

const problemOf = (text: string): string | null => {
  const bytes = Buffer.byteLength(text);
  if (bytes > maxSchemaBytes) return `Expected at most ${maxSchemaBytes} bytes, got ${bytes}`;
  const schema = JSON.parse(text) as Schema;
  if (!isNestedWithin(schema, maxLevels)) return `Expected at most ${maxLevels} levels of nesting, got more`;
  const patterns = new Set<string>();
  let validate: ValidateFunction;
  try {
    validate = within(compileMs, () => compile(schema, patterns));
  } catch (error) {
    return isLate(error)
      ? `Expected a schema that can be read within ${compileMs / 1000} s, got one that takes longer`
      : sentence(error);
  }
  if (patterns.size > maxPatterns) return `Expected at most ${maxPatterns} patterns, got ${patterns.size}`;
  for (const pattern of patterns) {
    if (pattern.length > maxPatternChars)
      return `Expected patterns of at most ${maxPatternChars} characters, got one of ${pattern.length}`;
    if (isEndless(pattern))
      return `Expected patterns that a text can be held against at once, got ${JSON.stringify(pattern.slice(0, 100))}, which takes exponential time: repeat no group that can match the same text in two ways`;
  }
  try {
    within(tryMs, () => samples.forEach((sample) => validate(sample)));
    return null;
  } catch (error) {
    if (error instanceof RangeError) return "Expected a schema that comes to an end, got one that refers to itself";
    return isLate(error)
      ? "Expected a schema that a value can be held against at once, got one that takes over a second"
      : sentence(error);
  }
};

const samples: readonly unknown[] = [null, true, 0, 1.5, "", "a", [], [{}], [[]], {}];

const wrongWith = (schema: string, output: string): string[] => {
  const validate = compile(JSON.parse(schema) as Schema, new Set());
  try {
    const value: unknown = JSON.parse(output);
    return within(outputMs, () => (validate(value) ? [] : lines(validate.errors ?? [])));
  } catch (error) {
    if (isLate(error))
      return [`It took longer than ${outputMs / 1000} s to hold it against the schema: give a smaller one`];
    if (error instanceof RangeError) return ["It is nested too deeply for this schema"];
    throw error;
  }
};

const mostLines = 10;

const lines = (errors: readonly ErrorObject[]): string[] => [
  ...errors.slice(0, mostLines).map(lineOf),
  ...(errors.length > mostLines ? [`and ${errors.length - mostLines} more`] : []),
];

const lineOf = ({ instancePath, message = "is wrong", params }: ErrorObject): string => {
  const { additionalProperty, allowedValues, allowedValue } = params as Record<string, unknown>;
  const more = additionalProperty ?? allowedValues ?? allowedValue;
  const said = `${instancePath === "" ? "the whole" : instancePath} ${message}${more === undefined ? "" : `: ${JSON.stringify(more)}`}`;
  return said.length > longestLine ? `${said.slice(0, longestLine)}…` : said;
};

const longestLine = 300;

/** Loaded with the first schema: most services never see one. */
const load = createRequire(import.meta.url);

const compile = (schema: Schema, patterns: Set<string>): ValidateFunction => {
  if (schema["$async"] !== undefined) throw new Error("Expected a schema without $async, got one with it");
  const regExp = Object.assign(
    (pattern: string, flags: string) => {
      patterns.add(pattern);
      return new RegExp(pattern, flags);
    },
    { code: "new RegExp" },
  );
  const options = { strict: false, allErrors: true, validateFormats: false, logger: false, code: { regExp } } as const;
  const draft = schema["$schema"];
  if (draft === undefined || (typeof draft === "string" && draft.replace(/#$/, "") === draft2020)) {
    const { Ajv2020 } = load("ajv/dist/2020.js") as typeof import("ajv/dist/2020.js");
    return new Ajv2020(options).compile(schema);
  }
  if (typeof draft === "string" && draft.replace(/#$/, "").replace(/^https/, "http") === draft07) {
    const { Ajv } = load("ajv") as typeof import("ajv");
    return new Ajv(options).compile(schema);
  }
  throw new Error(
    `Expected $schema to be absent, ${draft2020} or ${draft07}, got ${JSON.stringify(draft).slice(0, 200)}`,
  );
};

const draft2020 = "https://json-schema.org/draft/2020-12/schema";
const draft07 = "http://json-schema.org/draft-07/schema";

/**
 * Whether some text makes this pattern run practically forever: repetitions of the characters that the pattern itself
 * names are tried. Patterns that none of these expose are stopped later by `outputMs`.
 */
const isEndless = (pattern: string): boolean => {
  const named = [...new Set(`${pattern.replaceAll(/\\[dwsDWS]/g, "0a ")}aA0 -_.@/é`.split(""))].slice(0, 40);
  const pairs = named.slice(0, 12).flatMap((one) => named.slice(0, 12).map((other) => one + other));
  const texts = [...named, ...pairs].flatMap((unit) => [`${unit.repeat(40)}\u0000`, `${unit.repeat(40)}!x`]);
  const matcher = new RegExp(pattern, "u");
  return patternMs.every((ms) => {
    try {
      within(ms, () => texts.forEach((text) => matcher.test(text)));
      return false;
    } catch (error) {
      return isLate(error);
    }
  });
};

/** Interrupts the work when its time is up, also within compiled code or a regular expression. */
const within = <T>(ms: number, work: () => T): T => {
  const place: { work: () => void } = {
    work() {
      result = { value: work() };
    },
  };
  let result: { value: T } | undefined;
  runInContext("work()", createContext(place), { timeout: ms });
  return (result as unknown as { value: T }).value;
};

const isLate = (error: unknown): boolean => errorCode(error) === "ERR_SCRIPT_EXECUTION_TIMEOUT";

const sentence = (error: unknown): string => {
  const said = messageOf(error);
  const text = said.startsWith("can't resolve reference")
    ? `Expected $ref only to what is in the schema itself, got another: ${said}`
    : said.startsWith("Expected")
      ? said
      : `Expected a valid JSON Schema, got one of which ajv says: ${said}`;
  return text.length > 500 ? `${text.slice(0, 500)}…` : text;
};
