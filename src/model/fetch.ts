/**
 * The one way to a provider: Node's own fetch, whose connections are kept and shared, held to the origin the operator
 * configured and to a line that is not silent.
 */

/** No byte came for so long; the line was cut by us. */
export class SilentError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "SilentError";
  }
}

/** The request would have left the configured origin, with the key. */
export class OriginError extends Error {
  constructor(origin: string) {
    super(`the request would leave ${origin}`);
    this.name = "OriginError";
  }
}

/** Milliseconds until the first byte, between two, and for the whole reply. */
export type Patience = { firstMs: number; silentMs: number; replyMs: number };

export const createFetch = (origin: string, { firstMs, silentMs, replyMs }: Patience): typeof fetch => {
  return async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : String(input));
    if (url.origin !== origin) throw new OriginError(origin);
    const idle = new AbortController();
    const ends = performance.now() + replyMs;
    let bytes = false;
    /** A line that only keeps itself open with comments is cut as well. */
    const arm = () => {
      const silence = bytes ? silentMs : firstMs;
      const left = Math.max(1, ends - performance.now());
      const words = left < silence ? `no end after ${replyMs / 1000} s` : `no byte for ${silence / 1000} s`;
      return setTimeout(() => idle.abort(new SilentError(words)), Math.min(silence, left));
    };
    const signal = init?.signal == null ? idle.signal : AbortSignal.any([init.signal, idle.signal]);
    let timer = arm();
    let response: Response;
    try {
      // A redirect would carry the key to somewhere else.
      response = await fetch(url, { ...init, redirect: "error", signal });
    } finally {
      clearTimeout(timer);
    }
    if (response.body === null) return response;

    const reader = response.body.getReader();
    const body = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          timer = arm();
          try {
            const { done, value } = await reader.read();
            bytes = true;
            if (done) controller.close();
            else controller.enqueue(value);
          } finally {
            clearTimeout(timer);
          }
        },
        cancel: (reason) => reader.cancel(reason),
      },
      { highWaterMark: 0 },
    );
    return new Response(body, { status: response.status, statusText: response.statusText, headers: response.headers });
  };
};
