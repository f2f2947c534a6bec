import type { OutboundOptions } from "./address.ts";
import { openOutbound } from "./request.ts";

/**
 * `fetch` for a library that talks to one server. It requests only the given origins, so headers go nowhere else;
 * redirects are not followed but answered like any other response. A body longer than `maxBytes` is an error.
 */
export const fetchFrom =
  (origins: readonly string[], options: OutboundOptions & { maxBytes: number }) =>
  async (input: string | URL, init: RequestInit = {}): Promise<Response> => {
    const url = new URL(input);
    if (!origins.includes(url.origin))
      throw new TypeError(`Expected a request to ${origins.join(" or ")}, got one to ${url.origin}`);
    const method = init.method ?? "GET";
    const body = init.body instanceof URLSearchParams ? init.body.toString() : init.body;
    if (body !== undefined && body !== null && typeof body !== "string")
      throw new TypeError("Expected a body that is a text");
    const answer = await openOutbound(
      url.href,
      {
        method,
        headers: Object.fromEntries(new Headers(init.headers)),
        ...(typeof body === "string" ? { body } : {}),
      },
      options,
      init.signal ?? new AbortController().signal,
    );
    const headers = new Headers();
    for (const [name, value] of Object.entries(answer.headers))
      if (value !== undefined) headers.set(name, String(value));
    const status = answer.statusCode ?? 502;
    if (status > 599) {
      answer.destroy();
      throw new TypeError(`Expected an answer with a status below 600, got ${status}`);
    }
    if (status === 204 || status === 205 || status === 304 || status < 200) {
      answer.destroy();
      return new Response(null, { status: Math.max(status, 200), headers });
    }
    return new Response(ReadableStream.from(upTo(options.maxBytes, answer)), { status, headers });
  };

async function* upTo(most: number, answer: AsyncIterable<Buffer>): AsyncGenerator<Uint8Array, undefined, undefined> {
  let size = 0;
  for await (const part of answer) {
    size += part.length;
    if (size > most) throw new Error(`the answer has more than ${most} bytes`);
    yield part;
  }
}
