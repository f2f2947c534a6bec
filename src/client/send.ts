import { isErrorBody } from "./failure.ts";

/**
 * Sends a request. Sends it again when the service answers that it may succeed later, or when the connection was lost
 * and the request can be repeated without harm. For this, every POST gets an `Idempotency-Key`.
 */

export type SendOptions = {
  fetch: typeof fetch;
  /** How often a request is sent again. */
  retries: number;
  /** The first delay when there is no `Retry-After`; tests make it shorter. */
  waitMs?: number;
};

const longestWaitMs = 10_000;

/** A refusal with a longer `Retry-After` is returned, and waiting is left to the caller. */
const longestAskedMs = 30_000;

export const createSend = ({ fetch, retries, waitMs = 250 }: SendOptions) => {
  const attempt = async (request: Request): Promise<{ response: Response } | { error: unknown }> => {
    try {
      return { response: await fetch(request.clone()) };
    } catch (error) {
      return { error };
    }
  };
  return async (given: Request | string | URL, init?: RequestInit): Promise<Response> => {
    const request = new Request(given, init);
    if (request.method === "POST" && !request.headers.has("idempotency-key"))
      request.headers.set("idempotency-key", newKey());
    for (let sent = 1; ; sent += 1) {
      const done = await attempt(request);
      const last = sent > retries || request.signal.aborted;
      if ("error" in done) {
        if (last || !isRepeatable(request.method)) throw done.error;
        await pause(jittered(delayed(waitMs, sent)), request.signal);
        continue;
      }
      if (last) return done.response;
      const again = await againAfter(done.response, request.method, delayed(waitMs, sent));
      if (again === undefined) return done.response;
      await pause(jittered(again), request.signal);
    }
  };
};

/** A DELETE without an answer may have been carried out; a second one would then be answered with "not found". */
const isRepeatable = (method: string): boolean => method !== "DELETE";

const delayed = (waitMs: number, sent: number): number => Math.min(longestWaitMs, waitMs * 2 ** (sent - 1));

/** Never sooner than asked; random, so that clients that were refused together do not come back together. */
const jittered = (ms: number): number => ms * (1 + Math.random() / 2);

/** Milliseconds until a refused request may be sent again; undefined: it must not be. */
const againAfter = async (response: Response, method: string, ms: number): Promise<number | undefined> => {
  if (response.status !== 429 && response.status !== 503 && response.status !== 409) return undefined;
  const body: unknown = await response
    .clone()
    .json()
    .catch(() => undefined);
  if (!isErrorBody(body) || !body.retryable) return undefined;
  if (body.details?.["outcome"] === "unknown" && !isRepeatable(method)) return undefined;
  const asked = Number(response.headers.get("retry-after") ?? "") * 1000;
  if (asked > longestAskedMs) return undefined;
  return asked > 0 ? asked : ms;
};

/** `crypto.randomUUID` is not used, because browsers have it on secure origins only. */
const newKey = (): string =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** Resolves after `ms`, or earlier when the signal aborts; the next attempt then rejects with the signal's reason. */
export const pause = (ms: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
    if (signal?.aborted === true) done();
  });
