import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { RequestContext } from "./response.ts";

/** Converts between web-standard requests and responses and Node's own, for the MCP library. */

/** The request without its body, which has been read already, within the service's limits. */
export const toRequest = ({ method, url, headers }: IncomingMessage, signal: AbortSignal): Request => {
  const given = new Headers();
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined) given.set(name, Array.isArray(value) ? value.join(", ") : value);
  return new Request(new URL(url ?? "/", "http://localhost"), { method: method ?? "GET", headers: given, signal });
};

/** Streams the response. Resolves when it is sent; rejects when the caller disconnects. */
export const sendResponse = async (
  response: Response,
  entry: RequestContext,
  outgoing: ServerResponse,
): Promise<void> => {
  const { connection: _, ...headers } = Object.fromEntries(response.headers);
  outgoing.writeHead(response.status, { ...headers, ...entry.headers });
  if (response.body === null) outgoing.end();
  else await pipeline(Readable.fromWeb(response.body), outgoing);
};
