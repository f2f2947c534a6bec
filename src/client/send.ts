import { isErrorBody } from "./failure.ts";

/**
 * Sends a request, and again where the service says that it may succeed later, or the connection was lost and the
 * request can be repeated without harm. A POST gets an `Idempotency-Key`, so that it can be.
 */

export type SendOptions = {
  fetch: typeof fetch;
  /** How often a request is sent again. */
  retries: number;
  /** The first delay without a `Retry-After`; tests set it shorter. */
  waitMs?: number;
};

const longestWaitMs = 10_000;

/** A longer `Retry-After` is the caller's to wait for. */
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

/**
 * Without an answer it is unknown whether a DELETE was carried out; a second one would be told that nothing is there.
 */
const isRepeatable = (method: string): boolean => method !== "DELETE";

const delayed = (waitMs: number, sent: number): number => Math.min(longestWaitMs, waitMs * 2 ** (sent - 1));

/** Never sooner than asked; spread, so that clients that were refused together do not come back together. */
const jittered = (ms: number): number => ms * (1 + Math.random() / 2);

/** Milliseconds after which the refusal says to come again; undefined: it does not. */
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

/** Not `crypto.randomUUID`, which browsers have on secure origins alone. */
const newKey = (): string =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** Ends early with the signal; the next attempt then rejects with its reason. */
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
