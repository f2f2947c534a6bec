import type { IncomingMessage, ServerResponse } from "node:http";
import type { ErrorCode } from "../../error.ts";
import { ServiceError } from "../../error.ts";
import { newID } from "../../id.ts";
import type { Log } from "../../log.ts";
import type { ErrorBody } from "../../protocol/error.ts";

/** What the guards know of a request once it is let in. */
export type RequestContext = {
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

export const openEntry = (address: string): RequestContext => {
  requests += 1;
  const requestID = `${processID}-${requests}`;
  return { requestID, headers: { "x-request-id": requestID, ...always }, address };
};

/** What a handler answers; a long one, which is written as it comes, the handler writes itself. */
export type HttpAnswer =
  | { status: number; headers: Record<string, string>; body: string | Uint8Array | null }
  | typeof onSocket;

export const answer = (
  entry: RequestContext,
  status: number,
  body: string | Uint8Array | null,
  type: string,
  extra?: Record<string, string>,
): HttpAnswer => ({ status, headers: { "content-type": type, ...entry.headers, ...extra }, body });

export const json = (
  entry: RequestContext,
  status: number,
  body: unknown,
  extra?: Record<string, string>,
): HttpAnswer => answer(entry, status, JSON.stringify(body), jsonType, extra);

/** The answer without a body. */
export const empty = (entry: RequestContext, status: number, extra?: Record<string, string>): HttpAnswer => ({
  status,
  headers: { ...entry.headers, ...extra },
  body: null,
});

/** The handler answers on the socket itself. */
export const onSocket = "taken";

/** Node leaves the body out where the method is HEAD; its length is told all the same. */
export const write = (
  outgoing: ServerResponse,
  { status, headers, body }: Exclude<HttpAnswer, typeof onSocket>,
): void => {
  if (body === null) {
    outgoing.writeHead(status, headers).end();
    return;
  }
  const length = typeof body === "string" ? Buffer.byteLength(body) : body.length;
  outgoing.writeHead(status, { ...headers, "content-length": length }).end(body);
};

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

/** A refusal, wherever it was made. */
export const send = (outgoing: ServerResponse, entry: RequestContext, { status, headers, body }: Failure): void =>
  write(outgoing, {
    status,
    headers: { "content-type": jsonType, ...entry.headers, ...headers },
    body: JSON.stringify(body),
  });

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
