import { type ErrorCode, statusOf } from "../error.ts";
import { refusalsOf } from "../protocol/route/refusal.ts";
import type { Route } from "../protocol/route/route.ts";
import type { Routes } from "../protocol/route/table.ts";
import { errorBody } from "../protocol/error.ts";
import { z } from "zod";

/**
 * The OpenAPI 3.1 document, generated from the table of routes that also parses requests. The library is loaded on
 * first use, to save memory where the document is never requested.
 */
export const createDocument = async (routes: Routes, version: string): Promise<object> => {
  const { createDocument: create } = await import("zod-openapi");
  const paths: Record<string, Record<string, object>> = {};
  for (const [operationID, route] of Object.entries(routes) as [string, Route][])
    (paths[route.path] ??= {})[route.method.toLowerCase()] = operationOf(operationID, route);
  const document = create(
    {
      openapi: "3.1.0",
      info: {
        title: "Sortie",
        version,
        description:
          "Tasks carried out by agents in Git projects. Every error has the body `Error`. " +
          "If the service has a password, every route requires Basic authentication.",
        license: { name: "MIT", identifier: "MIT" },
      },
      servers: [{ url: "/" }],
      security: [{ basic: [] }],
      tags: [{ name: "task" }, { name: "event" }, { name: "service" }],
      paths,
      components: {
        securitySchemes: { basic: { type: "http", scheme: "basic" } },
        schemas: { Error: errorBody },
      },
    },
    { override: ({ jsonSchema, io }) => void (io === "output" && allowMore(jsonSchema)) },
  );
  return nameJson(freeReferences(document));
};

/**
 * A reference with a description of its own also gets `additionalProperties: false`, but has no properties, so it would
 * allow none. The schema that it refers to decides which fields are allowed.
 */
const freeReferences = (document: object): object =>
  JSON.parse(JSON.stringify(document), (_key, value: unknown) => {
    if (typeof value !== "object" || value === null || !("$ref" in value) || !("additionalProperties" in value))
      return value;
    const { additionalProperties: _, ...reference } = value;
    return reference;
  }) as object;

/** Answers may get additional fields, because the interface evolves by addition. */
const allowMore = (schema: { additionalProperties?: unknown }): void => {
  if (schema.additionalProperties === false) delete schema.additionalProperties;
};

/** zod-openapi numbers the recursive JSON schema once per use; this gives it one name. */
const nameJson = (document: object): object => {
  const text = JSON.stringify(document).replaceAll(
    /#\/components\/schemas\/__schema\d+/g,
    "#/components/schemas/JsonValue",
  );
  const named = JSON.parse(text) as { components: { schemas: Record<string, unknown> } };
  const { schemas } = named.components;
  const numbered = Object.keys(schemas).filter((name) => name.startsWith("__schema"));
  const [first, ...others] = numbered.map((name) => JSON.stringify(schemas[name]));
  if (first === undefined || others.some((other) => other !== first))
    throw new Error("Expected one recursive schema, the JSON value; got several.");
  schemas["JsonValue"] = JSON.parse(first);
  for (const name of numbered) delete schemas[name];
  return named;
};

const directoryText = {
  required: "Absolute path of the project on the service's machine; here or in the header x-service-directory.",
  optional:
    "The project: an absolute path; here or in the header x-service-directory. Without it, what every project sees.",
  filter: "Only this project's events: an absolute path; here or in the header x-service-directory.",
  accepted: "Accepted, but not needed.",
};

const operationOf = (operationID: string, route: Route): object => {
  const query = route.query instanceof z.ZodObject ? route.query : z.object({});
  const headers: Record<string, z.ZodType> = {
    "x-service-directory": z.string().optional().describe("The directory, for callers that prefer a header"),
    "x-service-node": z.string().optional().describe("The node whose directory is meant, if several nodes have it"),
  };
  if (route.method === "POST")
    headers["Idempotency-Key"] = z
      .string()
      .min(1)
      .max(255)
      .optional()
      .describe("1-255 visible ASCII characters; the same key and body get the first answer again");
  if (route.answers.some(({ type }) => type === "text/event-stream"))
    headers["Last-Event-ID"] = z
      .string()
      .optional()
      .describe("Resume after this event id; takes precedence over `after`");
  return {
    operationId: operationID,
    summary: route.summary,
    tags: [operationID.split(".", 1)[0]],
    ...(route.queryPrefix === undefined
      ? {}
      : { description: `Also takes \`${route.queryPrefix}<key>=<value>\`, one per key.` }),
    requestParams: {
      ...(route.params === undefined ? {} : { path: route.params }),
      query: query.extend({
        directory: z.string().optional().describe(directoryText[route.directory]),
        ...(route.directory === "accepted"
          ? {}
          : { repository: z.string().optional().describe("The project's URL, instead of a directory") }),
      }),
      header: z.object(headers),
    },
    ...(route.body === undefined
      ? {}
      : {
          requestBody: {
            required: route.bodyOptional !== true,
            content: { "application/json": { schema: route.body } },
          },
        }),
    responses: { ...answersOf(route), ...errorsOf(route) },
  };
};

const answersOf = (route: Route): Record<string, object> => {
  const answers: Record<string, { description: string; content?: Record<string, object> }> = {};
  for (const { status, description, type, schema } of route.answers) {
    const answer = (answers[status] ??= { description });
    if (type === undefined) continue;
    answer.content ??= {};
    answer.content[type] =
      type === "application/zip" || type === "*/*"
        ? { schema: { type: "string", format: "binary" } }
        : { schema: schema ?? { type: "string" } };
  }
  return answers;
};

const reasons: Record<number, string> = {
  400: "A field, parameter, header or the directory is invalid",
  401: "Credentials missing or wrong",
  403: "Host, origin or directory not allowed",
  404: "No such object",
  409: "Not possible in the current state or project, or the Idempotency-Key was used for another request",
  410: "The log does not go back that far",
  413: "Body or attachment too large",
  415: "Not JSON",
  422: "Cannot be done with this project or configuration",
  429: "Too many requests; Retry-After",
  500: "An unexpected error of the service",
  503: "The service is stopping, or its store or disk is unavailable; Retry-After",
};

/** The error responses of a route by HTTP status, each with the codes that the operation can answer. */
const errorsOf = (route: Route): Record<string, object> => {
  const codes = new Map<number, Set<ErrorCode>>();
  for (const code of refusalsOf(route)) {
    const status = statusOf[code];
    codes.set(status, (codes.get(status) ?? new Set()).add(code));
  }
  return Object.fromEntries(
    [...codes].map(([status, of]) => [
      status,
      {
        description: `${reasons[status] ?? ""}: ${[...of].map((code) => `\`${code}\``).join(", ")}`,
        content: { "application/json": { schema: errorBody } },
      },
    ]),
  );
};
