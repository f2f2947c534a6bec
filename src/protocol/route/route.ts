import { z } from "zod";
import type { ErrorCode } from "../../error.ts";

/** One row of the table of routes, and the pieces that rows share. */

export type Answer = {
  status: 200 | 202 | 204 | 304;
  description: string;
  type?:
    | "application/json"
    | "text/event-stream"
    | "text/plain"
    | "text/x-diff"
    | "application/zip"
    | "*/*"
    | "text/html";
  schema?: z.ZodType;
};

export type Route = {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  path: `/${string}`;
  summary: string;
  /**
   * The `directory` parameter. `required`: 400 without it. `accepted`: allowed and ignored. `filter`: narrows the
   * answer. `optional`: adds to the answer.
   */
  directory: "required" | "accepted" | "filter" | "optional";
  /** Path parameters are plain strings: a malformed Task id gives a 404, not a 400. */
  params?: z.ZodObject;
  /** Unknown query parameters are rejected. `directory` is added to every route. */
  query?: z.ZodType;
  /** Prefix of further query parameters, e.g. `metadata.`. */
  queryPrefix?: string;
  body?: z.ZodType;
  /** An absent body counts as `{}`. */
  bodyOptional?: boolean;
  /** `large`: limited by limits.largeBodyBytes instead of limits.bodyBytes. */
  bodySize?: "large";
  answers: readonly Answer[];
  /** Error codes in addition to those that follow from the rest of the row (refusal.ts). */
  refuses?: readonly ErrorCode[];
};

export const json = (schema: z.ZodType, description: string, status: 200 | 202 = 200): Answer => ({
  status,
  description,
  type: "application/json",
  schema,
});

/**
 * Overrides the schema in the OpenAPI document: a query parameter is text, but the document shows the type that it
 * stands for.
 */
const shownAs = (schema: object) => ({
  override: ({ jsonSchema }: { jsonSchema: Record<string, unknown> }): void => {
    for (const key of Object.keys(jsonSchema)) if (key !== "description") delete jsonSchema[key];
    Object.assign(jsonSchema, schema);
  },
});

/** A whole number in a query string. */
export const count = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/, { error: (issue) => `Expected a whole number, got ${JSON.stringify(issue.input)}` })
    .transform(Number)
    .pipe(z.number().int().min(min).max(max))
    .meta(shownAs({ type: "integer", minimum: min, maximum: max }));
export const flag = z
  .enum(["1", "0", "true", "false"])
  .transform((value) => value === "1" || value === "true")
  .meta(shownAs({ type: "boolean" }));

/** For a status record: how long the answer may wait for a change or for the end. */
export const waitQuery = z.object({
  wait: count(0, 60)
    .optional()
    .describe("Seconds to delay the answer: with If-None-Match until something changes, otherwise until the end"),
});

export const unchanged: Answer = { status: 304, description: "Unchanged since If-None-Match" };

export const eventQuery = z.object({
  after: z.string().optional().describe("Resume after this event id; 0 replays from the start"),
  follow: flag.optional().describe("1 = stay open after task.settled"),
  format: z.enum(["json"]).optional().describe("json: one page of the log instead of a stream"),
  limit: count(1, 1000).optional().describe("Page size with format=json"),
});
