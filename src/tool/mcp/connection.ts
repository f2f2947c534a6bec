import { setTimeout as wait } from "node:timers/promises";
import type { Client, jsonSchemaValidator, JsonSchemaValidatorResult, Transport } from "@modelcontextprotocol/client";
import { messageOf } from "../../error.ts";
import { version } from "../../package-root.ts";
import { shellQuote } from "../../shell-quote.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { fetchOf } from "./http.ts";
import { createLineTransport } from "./line-transport.ts";
import { listingOf } from "./listing.ts";
import { type Listing, type McpAnswer, type McpAuth, McpFailure, type McpServer } from "./server.ts";

/**
 * A connection to one MCP server: to its program in the Task's sandbox, or to its address. It ends with the agent's
 * turn.
 */

export type McpConnection = {
  list(signal: AbortSignal): Promise<Listing>;
  call(tool: string, input: Record<string, unknown>, timeoutMs: number, signal: AbortSignal): Promise<McpAnswer>;
  /** Whether the connection has ended, so that a new one must be made. */
  isOver(): boolean;
  close(): Promise<void>;
};

const leaveMs = 1000;
const longestStartMs = 30_000;
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
  /** Why the connection ended, if not on request. */
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
    const http = new sdk.StreamableHTTPClientTransport(url, {
      ...(auth === undefined ? {} : { authProvider: providerOf(sdk, auth) }),
      fetch: fetchOf(server),
      reconnectionOptions: {
        maxReconnectionDelay: 1000,
        initialReconnectionDelay: 1000,
        reconnectionDelayGrowFactor: 1,
        maxRetries: 0,
      },
    });
    // A server that keeps a session is told that it has ended; the wait for its reply is bounded.
    leave = () => Promise.race([http.terminateSession(), wait(leaveMs, undefined, { ref: false })]);
    transport = http;
  }
  const client: Client = new sdk.Client(
    { name: "sortie", version },
    // Its result schemas are the server's own: they are not compiled here.
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
    if (error instanceof McpFailure) return error;
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
      // A server that has once not answered may be stuck forever, so the next call makes a new connection.
      if (!(error instanceof sdk.ProtocolError)) await close();
      throw found;
    }
  };

  // The library waits without a bound for the reply to the last message of the handshake.
  await asking(() => within(startMs, client.connect(transport, { timeout: startMs, signal })));
  return {
    async list(until) {
      const given = await asking(() =>
        client.listTools(undefined, { timeout: startMs, maxTotalTimeout: startMs, signal: until, cacheMode: "bypass" }),
      );
      return listingOf(name, given.tools);
    },
    async call(tool, input, timeoutMs, until) {
      const options = { timeout: timeoutMs, maxTotalTimeout: timeoutMs, signal: until };
      const { content, isError } = await asking(() => client.callTool({ name: tool, arguments: input }, options));
      return {
        ok: isError !== true,
        text: content.map((block) => (block.type === "text" ? block.text : "")).join("\n"),
      };
    },
    isOver: () => over,
    close,
  };
};

const longestEnd = 500;

/**
 * The end of a program's output, without stack frames: they are most of a crash report, and its message stands before
 * them.
 */
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

/**
 * Tokens are requested only from the issuer that the operator named: no credentials are sent to an issuer that the
 * server names.
 */
const providerOf = (sdk: typeof import("@modelcontextprotocol/client"), auth: McpAuth) =>
  new sdk.ClientCredentialsProvider({
    clientId: auth.clientID,
    clientSecret: auth.clientSecret,
    clientName: "sortie",
    expectedIssuer: auth.issuer,
    ...(auth.scope === undefined ? {} : { scope: auth.scope }),
  });

const within = async (ms: number, work: Promise<void>): Promise<void> => {
  const over = new AbortController();
  const late = wait(ms, undefined, { ref: false, signal: over.signal }).then(() => {
    throw new McpFailure("it did not answer in time");
  });
  try {
    await Promise.race([work, late]);
  } finally {
    over.abort();
    late.catch(() => {});
    work.catch(() => {});
  }
};
