/**
 * The one way to a provider: Node's own fetch, whose connections are kept and shared, held to the origin the operator
 * configured and to a line that is not silent.
 */

/** No byte came for so long; the line was cut by us. */
export class SilentError extends Error {
  constructor(ms: number) {
    super(`no byte for ${ms / 1000} s`);
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

export const createFetch = (origin: string, silenceMs: number): typeof fetch => {
  return async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : String(input));
    if (url.origin !== origin) throw new OriginError(origin);
    const idle = new AbortController();
    const arm = () => setTimeout(() => idle.abort(new SilentError(silenceMs)), silenceMs);
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
