import type { IncomingMessage, ServerResponse } from "node:http";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import type { ErrorCode } from "../errors.ts";
import { ServiceError } from "../errors.ts";
import { newID } from "../id.ts";
import type { Log } from "../log.ts";
import type { ErrorBody } from "../protocol/error.ts";

/** What the guards know of a request once it is let in. */
export type Entry = {
  requestID: string;
  /** On every answer: the request id, and CORS for an allowed foreign origin. */
  headers: Record<string, string>;
  /** Who asks, for rates and caps: the peer's address. */
  address: string;
};

export const jsonType = "application/json; charset=utf-8";

/** Headers of every answer. Source: design/security.md S8. */
const always = {
  "x-content-type-options": "nosniff",
  "cache-control": "no-store",
  "referrer-policy": "no-referrer",
} as const;

/** Unique without asking for random bytes on each request, which cost more than all the guards together. */
const processID = newID("req");
let requests = 0;

export const openEntry = (address: string): Entry => {
  requests += 1;
  const requestID = `${processID}-${requests}`;
  return { requestID, headers: { "x-request-id": requestID, ...always }, address };
};

export const answer = (
  entry: Entry,
  status: number,
  body: string | Uint8Array<ArrayBuffer> | null,
  type: string,
  extra?: Record<string, string>,
): Response => {
  const headers: Record<string, string> = { "content-type": type, ...entry.headers, ...extra };
  return new Response(body, { status, headers });
};

export const json = (entry: Entry, status: number, body: unknown, extra?: Record<string, string>): Response =>
  answer(entry, status, JSON.stringify(body), jsonType, extra);

/** The answer without its body, as HEAD wants it. */
export const empty = (entry: Entry, status: number, extra?: Record<string, string>): Response =>
  new Response(null, { status, headers: { ...entry.headers, ...extra } });

/**
 * The handler answers on the socket itself. A clone, because the adapter replaces the global Response by one that it
 * would send again.
 */
export const taken: Response = RESPONSE_ALREADY_SENT.clone();

/** Refusals on the wire itself, which have a status of HTTP but no code of their own in the table. */
export type Failure = { status: number; headers: Record<string, string>; body: ErrorBody };

/**
 * The one place where an error becomes an answer. A `ServiceError` says what it says; anything else is a bug: it is
 * logged with the request's id, and the caller learns that id and nothing more.
 */
export const failureOf = (error: unknown, requestID: string, log: Log): Failure => {
  if (!(error instanceof ServiceError)) {
    log.error({ requestID, err: error instanceof Error ? error : { message: String(error) } }, "request failed");
    return failure("internal", 500, "An internal error; the log has it under this requestID.", requestID);
  }
  // A missing Task reads the same whatever the cause, so that the text tells nobody which ids exist.
  const message = error.code === "task_not_found" ? unknownTask : error.message;
  const { status, code, retryable, details, issues, headers } = error;
  return {
    status,
    headers,
    body: {
      message,
      code,
      status,
      requestID,
      retryable,
      ...(details === undefined ? {} : { details }),
      ...(issues === undefined ? {} : { issues }),
    },
  };
};

const unknownTask = "Expected the id of an existing Task, got one that does not exist.";

export const taskNotFound = (): ServiceError => new ServiceError("task_not_found", unknownTask);

export const failure = (code: ErrorCode, status: number, message: string, requestID: string): Failure => ({
  status,
  headers: {},
  body: { message, code, status, requestID, retryable: false },
});

export const failed = (entry: Entry, { status, headers, body }: Failure): Response =>
  json(entry, status, body, headers);

/** Answers below the router, where there is no Response yet. */
export const send = (outgoing: ServerResponse, entry: Entry, { status, headers, body }: Failure): void => {
  const text = JSON.stringify(body);
  outgoing.writeHead(status, {
    "content-type": jsonType,
    "content-length": Buffer.byteLength(text),
    ...entry.headers,
    ...headers,
  });
  outgoing.end(outgoing.req.method === "HEAD" ? undefined : text);
};

const drainBytes = 64 * 1024 * 1024;
const drainMs = 5_000;

/**
 * Reads away what is left of a refused body, within bounds, so that the sender sees the answer rather than a reset;
 * a sender that goes on beyond them is cut.
 */
export const drain = (incoming: IncomingMessage): void => {
  if (incoming.readableEnded || incoming.destroyed) return;
  let bytes = 0;
  const timer = setTimeout(() => incoming.destroy(), drainMs);
  timer.unref();
  incoming.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > drainBytes) incoming.destroy();
  });
  incoming.once("close", () => clearTimeout(timer));
  incoming.on("error", () => {});
  incoming.resume();
};
