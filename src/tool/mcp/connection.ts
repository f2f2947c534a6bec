import { setTimeout as wait } from "node:timers/promises";
import type {
  Client,
  ContentBlock,
  jsonSchemaValidator,
  JsonSchemaValidatorResult,
  Transport,
} from "@modelcontextprotocol/client";
import { messageOf } from "../../error.ts";
import { version } from "../../package-root.ts";
import { fetchFrom } from "../../outbound/fetch.ts";
import { shellQuote } from "../../shell-quote.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { createLineTransport } from "./line-transport.ts";
import { listingOf } from "./listing.ts";
import { type Listing, type McpAnswer, type McpAuth, McpFailure, type McpServer } from "./server.ts";

/** One connection to one server: its program in the Task's sandbox, or its address. It ends with the agent's turn. */

export type McpConnection = {
  list(signal: AbortSignal): Promise<Listing>;
  call(tool: string, input: Record<string, unknown>, timeoutMs: number, signal: AbortSignal): Promise<McpAnswer>;
  /** It answers no more; another one has to be made. */
  isOver(): boolean;
  close(): Promise<void>;
};

const leaveMs = 1000;
const longestStartMs = 30_000;
/** Of what an address answers to one request. */
const mostBytes = 4 * 1024 * 1024;
const mostPages = 16;

export const connectTo = async (
  name: string,
  server: McpServer,
  workspace: Pick<Workspace, "startInteractive">,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<McpConnection> => {
  const startMs = Math.min(timeoutMs, longestStartMs);
  const sdk = await import("@modelcontextprotocol/client");
  /** Why it was ended, where it was not asked to. */
  let failure: McpFailure | undefined;
  let over = false;
  let asked = () => {};
  let said = () => "";
  let leave = () => Promise.resolve();
  let transport: Transport;
  if (server.kind === "stdio") {
    const program = await workspace
      .startInteractive({
        run: `exec ${[server.command, ...server.args].map(shellQuote).join(" ")}`,
        env: server.env,
        home: "passing",
        network: server.network,
        signal,
      })
      .catch((error: unknown) => {
        signal.throwIfAborted();
        throw new McpFailure(`it could not be started: ${messageOf(error)}`);
      });
    const lines = createLineTransport(program, (why) => {
      failure = why;
    });
    asked = () => lines.asked();
    said = () => program.stderr();
    transport = lines;
  } else {
    const url = new URL(server.url);
    const { auth } = server;
    const origins = [url.origin, ...(auth === undefined ? [] : [new URL(auth.issuer).origin])];
    const http = new sdk.StreamableHTTPClientTransport(url, {
      requestInit: { headers: { ...server.headers } },
      ...(auth === undefined ? {} : { authProvider: providerOf(sdk, auth) }),
      fetch: withoutListening(
        url,
        fetchFrom(origins, {
          vouched: (to) => origins.includes(to.origin),
          allowed: () => true,
          maxBytes: mostBytes,
        }),
      ),
      reconnectionOptions: {
        maxReconnectionDelay: 1000,
        initialReconnectionDelay: 1000,
        reconnectionDelayGrowFactor: 1,
        maxRetries: 0,
      },
    });
    // A server that keeps a session is told that it is over, and not waited for.
    leave = () => Promise.race([http.terminateSession(), wait(leaveMs, undefined, { ref: false })]);
    transport = http;
  }
  const client: Client = new sdk.Client(
    { name: "sortie", version },
    // Its schemas of results are its own: they are not compiled here.
    { capabilities: {}, jsonSchemaValidator: unchecked, listMaxPages: mostPages },
  );
  // oxlint-disable-next-line unicorn/prefer-add-event-listener -- no event target
  client.onclose = () => {
    over = true;
  };
  // oxlint-disable-next-line unicorn/prefer-add-event-listener -- no event target
  client.onerror = () => {};

  const words = (error: unknown): McpFailure => {
    if (failure !== undefined) return failure;
    const end = endOf(said());
    const why =
      error instanceof sdk.SdkError && error.code === sdk.SdkErrorCode.RequestTimeout
        ? "it did not answer in time"
        : over
          ? "it exited"
          : messageOf(error).replaceAll(/\s+/g, " ").slice(0, longestEnd);
    return new McpFailure(`${why}${end === "" ? "" : `; the last that it wrote: ${end}`}`);
  };
  const close = async () => {
    over = true;
    await leave().catch(() => {});
    await client.close().catch(() => {});
  };
  const asking = async <T>(work: () => Promise<T>): Promise<T> => {
    asked();
    try {
      return await work();
    } catch (error) {
      signal.throwIfAborted();
      const found = words(error);
      // Who has not answered once may be stuck for ever: the next call begins anew.
      if (!(error instanceof sdk.ProtocolError)) await close();
      throw found;
    }
  };

  await asking(() => client.connect(transport, { timeout: startMs, signal }));
  return {
    async list(until) {
      const given = await asking(() =>
        client.listTools(undefined, { timeout: startMs, maxTotalTimeout: startMs, signal: until, cacheMode: "bypass" }),
      );
      return listingOf(name, given.tools);
    },
    async call(tool, input, timeoutMs, until) {
      const options = { timeout: timeoutMs, maxTotalTimeout: timeoutMs, signal: until };
      const { content, isError, structuredContent } = await asking(() =>
        client.callTool({ name: tool, arguments: input }, options),
      );
      const shown = content.map(textOf).join("\n");
      const text = shown === "" && structuredContent !== undefined ? JSON.stringify(structuredContent, null, 2) : shown;
      return { ok: isError !== true, text };
    },
    isOver: () => over,
    close,
  };
};

const longestEnd = 500;

/** The last that a program wrote, without where in its code it was: of a fault that is most of it, and what it says stands before. */
const endOf = (written: string): string =>
  written
    .split("\n")
    .filter((line) => !/^\s+at /.test(line))
    .join("\n")
    .trim()
    .slice(-longestEnd);

const unchecked: jsonSchemaValidator = {
  getValidator:
    <T>() =>
    (input: unknown): JsonSchemaValidatorResult<T> => ({ valid: true, data: input as T, errorMessage: undefined }),
};

/** A token is had of the issuer that the operator named: a server that names another one gets no credentials sent there. */
const providerOf = (sdk: typeof import("@modelcontextprotocol/client"), auth: McpAuth) =>
  new sdk.ClientCredentialsProvider({
    clientId: auth.clientID,
    clientSecret: auth.clientSecret,
    clientName: "sortie",
    expectedIssuer: auth.issuer,
    ...(auth.scope === undefined ? {} : { scope: auth.scope }),
  });

/** Nobody listens to what a server says unasked: it would hold a connection open for that. */
const withoutListening =
  (server: URL, request: (input: string | URL, init?: RequestInit) => Promise<Response>) =>
  (input: string | URL, init?: RequestInit): Promise<Response> =>
    (init?.method ?? "GET") === "GET" && new URL(input).href === server.href
      ? Promise.resolve(new Response(null, { status: 405 }))
      : request(input, init);

const textOf = (block: ContentBlock): string => {
  switch (block.type) {
    case "text":
      return block.text;
    case "image":
    case "audio":
      return `[${block.type}, ${block.mimeType}, ${Math.floor(block.data.length * 0.75)} bytes, not shown]`;
    case "resource_link":
      return `[link to ${block.uri}${block.name === "" ? "" : `, ${block.name}`}]`;
    case "resource":
      return "text" in block.resource ? block.resource.text : `[${block.resource.uri}, not shown]`;
  }
};
