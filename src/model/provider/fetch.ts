import { type IncomingMessage, request as plainRequest } from "node:http";
import { request as secureRequest } from "node:https";
import type { Socket } from "node:net";

/**
 * The only way to a provider: Node's HTTP client, with connections kept and shared, behind the `fetch` interface that
 * the packages call. It allows only the origin that the operator configured, and cuts silent connections. Not Node's
 * own fetch, which holds the body of each request until the next full garbage collection (decision 34).
 */

/** No byte arrived in time, and we closed the connection. */
export class SilentError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "SilentError";
  }
}

/** The request, with its key, would have gone to another origin than the configured one. */
export class OriginError extends Error {
  constructor(origin: string) {
    super(`the request would leave ${origin}`);
    this.name = "OriginError";
  }
}

/** The provider redirected the request elsewhere. */
export class RedirectError extends Error {
  constructor(status: number) {
    super(`the answer is a redirect (${status})`);
    this.name = "RedirectError";
  }
}

/**
 * Most bytes of one line of an answer. A model's output comes in small pieces, and one piece is parsed at once;
 * arguments of a mebibyte whose characters are all escaped still fit.
 */
const longestLine = 6 * 1024 * 1024;

/** Maximum milliseconds: until the first byte, between two bytes, and for the whole reply. */
export type Patience = { firstMs: number; silentMs: number; replyMs: number };

/** Maximum milliseconds to establish a connection. */
const connectMs = 10_000;

const redirects = [301, 302, 303, 307, 308];
const bodiless = [204, 205, 304];

type Line = { destroy(error?: Error): unknown };
/** Starts a timer that closes a silent connection; clear it as soon as something arrives. */
type Watch = (line: Line, silentMs: number) => NodeJS.Timeout;

export const createFetch = (origin: string, { firstMs, silentMs, replyMs }: Patience): typeof fetch => {
  return async (input, init = {}) => {
    const url = new URL(input instanceof Request ? input.url : String(input));
    if (url.origin !== origin) throw new OriginError(origin);
    const ends = performance.now() + replyMs;
    // The total limit also closes a connection that only sends keep-alive comments.
    const watch: Watch = (line, silence) => {
      const left = Math.max(1, ends - performance.now());
      const words = left < silence ? `no end after ${replyMs / 1000} s` : `no byte for ${silence / 1000} s`;
      return setTimeout(() => line.destroy(new SilentError(words)), Math.min(silence, left));
    };
    const answer = await send(url, init, (line) => watch(line, firstMs));
    const { statusCode: status = 0, statusMessage: statusText = "" } = answer;
    // Following the redirect would send the key elsewhere.
    if (redirects.includes(status)) {
      answer.destroy();
      throw new RedirectError(status);
    }
    const coding = answer.headers["content-encoding"] ?? "identity";
    if (coding !== "identity") {
      answer.destroy();
      throw new Error(`the answer is compressed (${coding}), although no compression was requested`);
    }
    const headers = new Headers();
    for (let at = 0; at < answer.rawHeaders.length; at += 2)
      headers.append(answer.rawHeaders[at] ?? "", answer.rawHeaders[at + 1] ?? "");
    let silence = firstMs;
    let line = 0;
    const pieces = answer.iterator();
    const body = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          const timer = watch(answer, silence);
          try {
            const { done, value } = (await pieces.next()) as IteratorResult<Buffer, undefined>;
            silence = silentMs;
            if (done) return controller.close();
            const end = value.lastIndexOf(0x0a);
            line = end === -1 ? line + value.length : value.length - end - 1;
            if (line > longestLine) {
              answer.destroy();
              throw new Error(`the answer has a line of more than ${longestLine} bytes`);
            }
            controller.enqueue(value);
          } finally {
            clearTimeout(timer);
          }
        },
        cancel: () => void answer.destroy(),
      },
      { highWaterMark: 0 },
    );
    return new Response(bodiless.includes(status) ? null : body, { status, statusText, headers });
  };
};

/** Sends one request; resolves with the head of its answer. */
const send = (url: URL, init: RequestInit, watch: (line: Line) => NodeJS.Timeout): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    const { method = "GET", body, signal } = init;
    if (typeof body !== "string" && body != null) throw new TypeError("Expected text as the body of a request.");
    const open = url.protocol === "https:" ? secureRequest : plainRequest;
    const sent = open(url, {
      method,
      headers: { accept: "*/*", "accept-encoding": "identity", ...Object.fromEntries(new Headers(init.headers)) },
      ...(signal == null ? {} : { signal }),
    });
    const timer = watch(sent);
    sent.once("socket", limitConnecting);
    sent.once("response", (answer) => {
      clearTimeout(timer);
      resolve(answer);
    });
    sent.on("error", (error: NodeJS.ErrnoException) => {
      clearTimeout(timer);
      // The other side may close a kept connection just when we reuse it.
      const stale = sent.reusedSocket && (error.code === "ECONNRESET" || error.code === "EPIPE");
      if (stale) resolve(send(url, init, watch));
      else reject(error);
    });
    // As bytes: Node would append a string to the head, and copy both.
    sent.end(body == null ? undefined : Buffer.from(body));
  });

const limitConnecting = (socket: Socket): void => {
  if (!socket.connecting) return;
  const late = Object.assign(new Error(`no connection after ${connectMs / 1000} s`), { code: "ETIMEDOUT" });
  const timer = setTimeout(() => socket.destroy(late), connectMs);
  for (const over of ["connect", "close"] as const) socket.once(over, () => clearTimeout(timer));
};
