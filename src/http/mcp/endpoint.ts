import { ServiceError } from "../../error.ts";
import { loadOnce } from "../../async/load-once.ts";
import type { Log } from "../../log.ts";
import type { Bodies } from "../request/body.ts";
import type { Caller, ToolDeps } from "./tool.ts";
import { parseQuery, readQuery } from "../request/parse.ts";
import {
  type HttpAnswer,
  drain,
  type RequestContext,
  failureOf,
  json,
  answeredOnSocket,
} from "../response/response.ts";
import type { Arrived, Serve } from "../request/serve.ts";
import { sendResponse, toRequest } from "../response/fetch-adapter.ts";

/**
 * `POST /mcp`: the Model Context Protocol over streamable HTTP, without sessions, for agents that delegate work. It
 * passes the same guards and body limits as every route; the router answers other methods with 405.
 */

export const mcpPath = "/mcp";

type Deps = ToolDeps & {
  version: string;
  bodies: Bodies;
  countCreate(address: string): void;
  log: Log;
};

export const createMcpEndpoint = (deps: Deps): { serve: Serve; close(): void } => {
  const closing = new AbortController();
  const load = loadOnce(async () => (await import("./server.ts")).createMcp(deps));

  const serve = async ({ entry, incoming, outgoing }: Arrived): Promise<HttpAnswer> => {
    const message = await deps.bodies.read(anyMessage, incoming, outgoing);
    const query = readQuery(incoming.url ?? "");
    parseQuery(noQuery, query);
    // A batch would be many requests that count as one; the protocol no longer has batches.
    if (Array.isArray(message?.value))
      throw new ServiceError("invalid_request", "Expected one JSON-RPC message, got a batch.");
    const mcp = await load();
    const gone = new AbortController();
    outgoing.once("close", () => gone.abort());
    const signal = AbortSignal.any([gone.signal, closing.signal]);
    const caller: Caller = {
      query: query.get("directory"),
      header: incoming.headers["x-service-directory"] as string | undefined,
      signal,
      countCreate: () => deps.countCreate(entry.address),
      requestID: entry.requestID,
    };
    const response = await mcp(toRequest(incoming, gone.signal), message?.value, caller);
    void sendResponse(response, entry, outgoing).catch((error: unknown) =>
      deps.log.debug({ requestID: entry.requestID, err: error }, "MCP answer not taken whole"),
    );
    return answeredOnSocket;
  };

  return {
    serve: (arrived) =>
      serve(arrived).catch((error: unknown) => {
        drain(arrived.incoming);
        return refused(error, arrived.entry, deps.log);
      }),
    /** Makes calls that wait for a Task or Mission answer now. */
    close: () => closing.abort(),
  };
};

/** Large, because a new Task may carry attachments. The MCP library validates the message. */
const anyMessage = { body: true, bodySize: "large" } as const;
const noQuery = { schema: undefined, names: new Set<string>(), inProject: true, prefix: undefined };

/** A refusal as a JSON-RPC error, with the service's error code in its data. */
const refused = (error: unknown, entry: RequestContext, log: Log): HttpAnswer => {
  const { status, headers, body } = failureOf(error, entry.requestID, log);
  const { message, code: reason, requestID, retryable } = body;
  const code = reason === "invalid_json" ? -32700 : reason === "invalid_request" ? -32600 : -32000;
  const answer = { jsonrpc: "2.0", id: null, error: { code, message, data: { code: reason, requestID, retryable } } };
  return json(entry, status, answer, headers);
};
