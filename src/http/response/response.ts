import type { IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { setImmediate } from "node:timers/promises";
import { type ErrorCode, ServiceError } from "../../error.ts";
import { newID } from "../../id.ts";
import type { Log } from "../../log.ts";
import type { ErrorBody } from "../../protocol/error.ts";
import { remedies } from "../../protocol/remedy.ts";
import { isFull } from "../../store/disk/full.ts";
import type { BlobRead } from "../../store/store.ts";

/** A request's context, created before the guards and used for its answer. */
export type RequestContext = {
  requestID: string;
  /** Headers of every answer: the request id, and CORS headers for an allowed foreign origin. */
  headers: Record<string, string>;
  /** The peer's address, for rate limits and stream limits. */
  address: string;
};

export const jsonType = "application/json; charset=utf-8";

/** Headers of every answer. */
const always = {
  "x-content-type-options": "nosniff",
  "cache-control": "no-store",
  "referrer-policy": "no-referrer",
} as const;

/** A unique prefix of request ids: random bytes for each request would cost more than all guards together. */
const processID = newID("req");
let requests = 0;

export const openEntry = (address: string): RequestContext => {
  requests += 1;
  const requestID = `${processID}-${requests}`;
  return { requestID, headers: { "x-request-id": requestID, ...always }, address };
};

/** A response body: in memory, or a blob that is read while it is sent. */
type Sent = string | Uint8Array | BlobRead;

/** A handler's answer; a handler that streams writes to the socket itself and returns `answeredOnSocket`. */
export type HttpAnswer =
  | { status: number; headers: Record<string, string | string[]>; body: Sent | null }
  | typeof answeredOnSocket;

export const answer = (
  entry: RequestContext,
  status: number,
  body: Sent | null,
  type: string,
  extra?: Record<string, string>,
): HttpAnswer => ({ status, headers: { "content-type": type, ...entry.headers, ...extra }, body });

export const json = (
  entry: RequestContext,
  status: number,
  body: unknown,
  extra?: Record<string, string>,
): HttpAnswer => answer(entry, status, JSON.stringify(body), jsonType, extra);

/** An answer without a body. */
export const empty = (
  entry: RequestContext,
  status: number,
  extra?: Record<string, string>,
  cookies: string[] = [],
): HttpAnswer => ({
  status,
  headers: { ...entry.headers, ...extra, ...(cookies.length === 0 ? {} : { "set-cookie": cookies }) },
  body: null,
});

/** A signal that aborts when the connection has closed or the answer has been sent. */
export const whenGone = (outgoing: ServerResponse): AbortSignal => {
  const gone = new AbortController();
  outgoing.once("close", () => gone.abort());
  if (outgoing.destroyed) gone.abort();
  return gone.signal;
};

/** The handler writes to the socket itself. */
export const answeredOnSocket = "taken";

type Answered = Exclude<HttpAnswer, typeof answeredOnSocket>;
type Whole = Omit<Answered, "body"> & { body: string | Uint8Array | null };

/** Node omits the body for HEAD; content-length is sent all the same. */
const write = (outgoing: ServerResponse, { status, headers, body }: Whole): void => {
  if (body === null) {
    outgoing.writeHead(status, headers).end();
    return;
  }
  const length = typeof body === "string" ? Buffer.byteLength(body) : body.length;
  outgoing.writeHead(status, { ...headers, "content-length": length }).end(body);
};

const pieceBytes = 64 * 1024;

/**
 * Writes like `write`, but sends a long body in pieces and lets other work run between them. Resolves when the socket
 * has taken it all, or is gone.
 */
export const writeLong = async (outgoing: ServerResponse, { body, ...head }: Answered): Promise<void> => {
  if (body !== null && typeof body === "object" && "pieces" in body) return writePieces(outgoing, head, body);
  if (body === null || body.length <= pieceBytes) return write(outgoing, { ...head, body });
  const { status, headers } = head;
  await setImmediate();
  const bytes = typeof body === "string" ? Buffer.from(body) : body;
  outgoing.writeHead(status, { ...headers, "content-length": bytes.length });
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    if (outgoing.destroyed) return;
    if (!outgoing.write(bytes.subarray(at, at + pieceBytes))) await drained(outgoing);
    await setImmediate();
  }
  outgoing.end();
};

/**
 * Rejects before anything is sent when the blob's first piece cannot be read; a later failure breaks the answer off.
 * Closes the blob when the caller disconnects.
 */
const writePieces = async (
  outgoing: ServerResponse,
  { status, headers }: Omit<Answered, "body">,
  { bytes, pieces }: BlobRead,
): Promise<void> => {
  const reading = pieces[Symbol.asyncIterator]();
  try {
    const first = outgoing.req.method === "HEAD" ? undefined : await reading.next();
    outgoing.writeHead(status, { ...headers, "content-length": bytes });
    if (first === undefined || first.done === true) outgoing.end();
    else await pipeline(() => restOf(first.value, reading), outgoing);
  } finally {
    await reading.return?.();
  }
};

async function* restOf(first: Buffer, reading: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  yield first;
  for (let next = await reading.next(); next.done !== true; next = await reading.next()) yield next.value;
}

const drained = (outgoing: ServerResponse): Promise<void> =>
  new Promise((resolve) => {
    const done = () => {
      outgoing.off("drain", done).off("close", done);
      resolve();
    };
    outgoing.on("drain", done).on("close", done);
    if (outgoing.destroyed) done();
  });

/** An error as an answer. Errors of the wire itself have an HTTP status that differs from their code's. */
export type Failure = { status: number; headers: Record<string, string>; body: ErrorBody };

/**
 * The only place where an error becomes an answer. A `ServiceError` is sent as it is, and a full disk becomes a
 * `ServiceError` of its own. Anything else is a bug: it is logged with the request's id, and the caller gets only that
 * id.
 */
export const failureOf = (thrown: unknown, requestID: string, log: Log): Failure => {
  const error = thrown instanceof ServiceError || !isFull(thrown) ? thrown : diskFull(thrown);
  if (!(error instanceof ServiceError)) {
    log.error({ requestID, err: error instanceof Error ? error : { message: String(error) } }, "request failed");
    return failure("internal", 500, "An internal error. Look for this requestID in the service's log.", requestID);
  }
  // One text for every missing Task, so that the message does not reveal which ids exist.
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
      ...remedyOf(code),
      ...(details === undefined ? {} : { details }),
      ...(issues === undefined ? {} : { issues }),
    },
  };
};

const diskFull = (cause: unknown): ServiceError =>
  new ServiceError(
    "disk_low",
    "There is no space left on the disk. Delete ended Tasks, or free space in another way.",
    { cause, headers: { "retry-after": "10" } },
  );

const unknownTask = "No Task has this id.";

export const taskNotFound = (): ServiceError => new ServiceError("task_not_found", unknownTask);

export const failure = (code: ErrorCode, status: number, message: string, requestID: string): Failure => ({
  status,
  headers: {},
  body: { message, code, status, requestID, retryable: false, ...remedyOf(code) },
});

const remedyOf = (code: ErrorCode): Pick<ErrorBody, "remedy"> => {
  const remedy = remedies[code];
  return remedy === undefined ? {} : { remedy };
};

/** Sends a refusal. */
export const send = (outgoing: ServerResponse, entry: RequestContext, { status, headers, body }: Failure): void =>
  write(outgoing, {
    status,
    headers: { "content-type": jsonType, ...entry.headers, ...headers },
    body: JSON.stringify(body),
  });

const drainBytes = 64 * 1024 * 1024;
const drainMs = 5_000;

/**
 * Reads and discards the rest of a refused body, so that the sender sees the answer instead of a connection reset.
 * Closes the connection above the limits in bytes and time.
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
