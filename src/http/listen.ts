import { chmodSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, ServerResponse } from "node:http";
import { createConnection, type Socket } from "node:net";
import { type ErrorCode, StartError } from "../error.ts";
import type { App } from "./app.ts";
import { connectionLimits, createConnections } from "./guard/connection.ts";
import { isAllowed, peerUser } from "./guard/peer-user.ts";
import { failure, openEntry, send } from "./response/response.ts";

/**
 * The server socket with its limits. Requests that Node's parser refuses get an error body of the service, too, and the
 * connection is closed.
 */

export type Listening = {
  /** The address for clients: `http://127.0.0.1:7878`, or the socket's path. */
  url: string;
  port: number;
  /**
   * Stops accepting connections, ends event streams with a reconnection time, and lets answers finish for up to five
   * seconds.
   */
  close(): Promise<void>;
};

export type Address = {
  host: string;
  port: number;
  socket?: string | undefined;
  /**
   * Refuses connections of other users of this machine; checked once per connection. A Unix socket refuses them by the
   * mode of its file.
   */
  sameUser?: boolean;
};

const graceMs = 5_000;
const requestsPerSocket = 1_000;

export const listen = async (app: App, { host, port, socket, sameUser = false }: Address): Promise<Listening> => {
  const server = createServer({
    // A missing Host is refused by the guard, with a body.
    requireHostHeader: false,
    insecureHTTPParser: false,
    maxHeaderSize: 16 * 1024,
    headersTimeout: 10_000,
    requestTimeout: 120_000,
    // Longer than proxies keep theirs (60 s), so that none sends a request on a connection that is being closed.
    keepAliveTimeout: 65_000,
    connectionsCheckingInterval: 500,
    noDelay: true,
  });
  // Above this number Node drops the newest connection, whoever opened it; `connections` closes others early enough.
  server.maxConnections = 2 * connectionLimits.crowd;
  const connections = createConnections();
  const strangers = new WeakSet<Socket>();
  server.on("connection", (opened) => {
    if (sameUser && socket === undefined && !isAllowed(peerUser(opened), process.getuid?.())) strangers.add(opened);
    connections.opened(opened);
  });
  const take = (incoming: IncomingMessage, outgoing: ServerResponse): void => {
    if (strangers.has(incoming.socket)) return refuse(outgoing, 403, strangerWords, incoming, "origin_not_allowed");
    const connection = connections.of(incoming.socket);
    // The connection was closed a moment ago.
    if (connection === undefined) return void incoming.socket.destroy();
    // Node's `maxRequestsPerSocket` only announces `close` and then answers 503; this really closes.
    connection.requests += 1;
    if (connection.requests >= requestsPerSocket) outgoing.shouldKeepAlive = false;
    if (!app.listener(incoming, outgoing)) return;
    connections.passed(connection);
    outgoing.once("close", () => connections.answered(connection));
  };
  server.on("request", take);
  // The 100 is written by request/body.ts, only for a body that will be read.
  server.on("checkContinue", take);
  server.on("checkExpectation", (incoming: IncomingMessage, outgoing: ServerResponse) =>
    refuse(outgoing, 417, `Expected no Expect header other than 100-continue, got one.`, incoming),
  );
  server.on("connect", (_incoming: IncomingMessage, stream: Socket) =>
    refuseRaw(stream, 400, "Expected a request to this service, got CONNECT."),
  );
  server.on("clientError", (error: NodeJS.ErrnoException, stream: Socket) => {
    const [status, message] = wireFaults[error.code ?? ""] ?? [
      400,
      "Expected a well-formed request, got something else.",
    ];
    refuseRaw(stream, status, message);
  });
  await (socket === undefined ? bind(server, host, port) : bindSocket(server, socket));

  const address = server.address();
  const bound = typeof address === "object" && address !== null ? address.port : 0;
  return {
    url: socket ?? `http://${reachable(host)}:${bound}`,
    port: bound,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      app.closeStreams();
      server.closeIdleConnections();
      // Connections that a client opened in advance and never used; Node does not count them as idle.
      for (const opened of connections.all()) if (opened.bytesRead === 0) opened.destroy();
      const timer = setTimeout(() => server.closeAllConnections(), graceMs);
      // Connections whose answer ends now become idle, and would keep the server open.
      const sweep = setInterval(() => server.closeIdleConnections(), 50);
      await closed;
      clearTimeout(timer);
      clearInterval(sweep);
      connections.stop();
    },
  };
};

const reachable = (host: string): string =>
  host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "[::1]" : host.includes(":") ? `[${host}]` : host;

const bind = (server: Server, host: string, port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EADDRINUSE")
        reject(new StartError(69, `Port ${port} is used by another program. Use --port, or stop that program.`));
      else if (error.code === "EACCES")
        reject(
          new StartError(69, `Port ${port} needs rights this user does not have. Use --port with a number above 1023.`),
        );
      else if (error.code === "EADDRNOTAVAIL" || error.code === "ENOTFOUND")
        reject(new StartError(69, `The address ${host} does not belong to this machine. Use --host.`));
      else reject(error);
    });
    server.listen(port, host, resolve);
  });

/**
 * Only the owner can read and write the socket. A socket file that a dead service left behind is replaced; one on which
 * a program answers is not.
 */
const bindSocket = async (server: Server, path: string): Promise<void> => {
  if (await answers(path)) throw new StartError(69, `The socket ${path} is used by another program. Stop it first.`);
  const mask = process.umask(0o177);
  try {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(path, resolve);
    });
  } catch (error) {
    throw new StartError(69, `The socket ${path} cannot be created: ${(error as Error).message}.`);
  } finally {
    process.umask(mask);
  }
  chmodSync(path, 0o600);
};

const answers = (path: string): Promise<boolean> =>
  new Promise((resolve, reject) => {
    const probe = createConnection(path);
    probe.once("connect", () => {
      probe.destroy();
      resolve(true);
    });
    probe.once("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") resolve(false);
      else if (error.code === "ECONNREFUSED") {
        rmSync(path);
        resolve(false);
      } else reject(new StartError(69, `The socket ${path} cannot be used: ${error.message}.`));
    });
  });

const wireFaults: Record<string, [number, string]> = {
  HPE_HEADER_OVERFLOW: [431, "Expected headers of at most 16384 bytes, got more."],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "Expected a complete request in time, got part of one."],
};

const words: Record<number, string> = {
  400: "Bad Request",
  408: "Request Timeout",
  431: "Request Header Fields Too Large",
};

const strangerWords = "Expected a caller of the service's own user or root (SERVICE_SAME_USER), got another user.";

const refuse = (
  outgoing: ServerResponse,
  status: number,
  message: string,
  incoming: IncomingMessage,
  code: ErrorCode = "invalid_request",
): void => {
  const entry = openEntry(incoming.socket.remoteAddress ?? "socket");
  const refusal = failure(code, status, message, entry.requestID);
  send(outgoing, entry, { ...refusal, headers: { connection: "close" } });
};

/**
 * Writes to the raw socket, because there is no response object: either the parser failed, or the method (CONNECT)
 * takes over the connection.
 */
const refuseRaw = (stream: Socket, status: number, message: string): void => {
  const begun = (stream as { _httpMessage?: ServerResponse | null })._httpMessage?.headersSent === true;
  if (begun || !stream.writable || stream.destroyed) return void stream.destroy();
  const entry = openEntry("");
  const body = JSON.stringify(failure("invalid_request", status, message, entry.requestID).body);
  const headers = {
    ...entry.headers,
    "content-type": "application/json; charset=utf-8",
    "content-length": String(Buffer.byteLength(body)),
    connection: "close",
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  stream.on("error", () => {});
  stream.end(`HTTP/1.1 ${status} ${words[status]}\r\n${lines.join("\r\n")}\r\n\r\n${body}`, () => stream.destroy());
};
