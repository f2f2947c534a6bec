import { lookup } from "node:dns/promises";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import { connect, isIP, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Duplex, pipeline } from "node:stream";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import { type AllowListMatcher, allowListOf } from "./allow-list.ts";

/**
 * The proxies through which commands with an allow list reach the hosts that it names, and no others: one proxy on a
 * Unix socket for each list. A name is resolved here, once, and the connection goes to an address that was judged. The
 * proxy passes bytes on and does not inspect TLS: each named host is responsible for whatever it forwards to.
 */
export type Proxies = {
  /** The socket of the proxy for this list; it listens from now on. */
  socketFor(list: readonly string[]): string;
  close(): void;
};

type Resolve = (host: string) => Promise<readonly string[]>;

const lookUp: Resolve = async (host) => (await lookup(host, { all: true })).map(({ address }) => address);

const connectMs = 15_000;
const mostTunnels = 256;

class Refused extends Error {}

export const createProxies = ({ log, resolve = lookUp }: { log: Log; resolve?: Resolve }): Proxies => {
  const open = new Map<string, { server: Server; path: string }>();
  /** A temporary folder, because the path of a socket is limited to about 100 characters. */
  let folder: string | undefined;
  return {
    socketFor(list) {
      const key = list.join(" ");
      const before = open.get(key);
      if (before !== undefined) return before.path;
      folder ??= mkdtempSync(join(tmpdir(), "sortie-net-"));
      const path = join(folder, `${open.size + 1}`);
      const server = proxyFor(allowListOf(list), resolve);
      server.on("error", (error) => log.error({ err: error, list: key }, "no proxy for an allow list"));
      server.listen(path);
      server.unref();
      open.set(key, { server, path });
      return path;
    },
    close() {
      for (const { server } of open.values()) {
        server.close();
        server.closeAllConnections();
      }
      open.clear();
      if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
      folder = undefined;
    },
  };
};

/** Connects to a host that the list names; rejects with `Refused`, or with the error of the connection. */
const reach = async (judge: AllowListMatcher, resolve: Resolve, host: string, port: number): Promise<Socket> => {
  const allowed = judge(host, port);
  if (allowed === undefined) throw new Refused(`${host}:${port} is not among the hosts that this project may reach`);
  const addresses = isIP(host) === 0 ? await resolve(host) : [host];
  const judged = addresses.filter(allowed);
  if (judged.length === 0)
    throw new Refused(`${host} has no public address; its port has to be named to reach another`);
  let failure: unknown;
  for (const address of judged.slice(0, 4))
    try {
      return await dial(address, port);
    } catch (error) {
      failure = error;
    }
  throw failure;
};

const dial = (address: string, port: number): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect({ host: address, port });
    const give = (error: Error) => {
      socket.destroy();
      reject(error);
    };
    socket.setTimeout(connectMs, () => give(new Error(`no connection to ${address} within ${connectMs / 1000} s`)));
    socket.once("error", give);
    socket.once("connect", () => {
      socket.setTimeout(0);
      socket.off("error", give);
      socket.on("error", () => socket.destroy());
      resolve(socket);
    });
  });

const proxyFor = (judge: AllowListMatcher, resolve: Resolve): Server => {
  let tunnels = 0;
  const server = createServer((incoming, response) => {
    forward(judge, resolve, incoming, response).catch(() => response.destroy());
  });
  server.on("connect", (incoming: IncomingMessage, client: Duplex, head: Buffer) => {
    client.on("error", () => client.destroy());
    const refuse = (status: string, why: string) =>
      client.end(`HTTP/1.1 ${status}\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n${why}\n`);
    const url = URL.parse(`http://${incoming.url ?? ""}`);
    const port = Number(/:(\d{1,5})$/.exec(incoming.url ?? "")?.[1]);
    if (url === null || !Number.isInteger(port)) return refuse("400 Bad Request", "Sortie: expected host:port.");
    if (tunnels >= mostTunnels) return refuse("503 Service Unavailable", "Sortie: too many connections at once.");
    tunnels += 1;
    client.once("close", () => (tunnels -= 1));
    reach(judge, resolve, bare(url.hostname), port).then(
      (socket) => {
        if (client.destroyed) return socket.destroy();
        client.write("HTTP/1.1 200 Connection Established\r\n\r\n");
        if (head.length > 0) socket.write(head);
        socket.pipe(client).pipe(socket);
        client.once("close", () => socket.destroy());
        return socket.once("close", () => client.destroy());
      },
      (error: unknown) => refuse(...answerTo(error)),
    );
    return undefined;
  });
  server.on("upgrade", (_, client) => client.destroy());
  server.on("clientError", (_, client) => client.destroy());
  return server;
};

const bare = (hostname: string): string => hostname.replace(/^\[|\]$/g, "");

const answerTo = (error: unknown): [status: string, why: string] =>
  error instanceof Refused
    ? ["403 Forbidden", `Sortie: ${error.message}.`]
    : ["502 Bad Gateway", `Sortie: ${messageOf(error)}.`];

/** Headers of a single connection, which are not passed on. */
const hops = new Set(
  "connection proxy-connection keep-alive proxy-authorization proxy-authenticate te trailer transfer-encoding upgrade host".split(
    " ",
  ),
);

const headersOf = ({ headers }: IncomingMessage) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !hops.has(name)));

/** Throws for a status that cannot be passed on in a response. */
const statusOf = ({ statusCode = 0 }: IncomingMessage): number => {
  if (statusCode >= 200 && statusCode <= 599) return statusCode;
  throw new Error(`expected a status from 200 to 599, got ${statusCode}`);
};

/** Forwards a request of plain http, with the absolute URL in its first line. */
const forward = async (
  judge: AllowListMatcher,
  resolve: Resolve,
  incoming: IncomingMessage,
  response: ServerResponse,
) => {
  const refuse = (status: string, why: string) => {
    if (response.headersSent) return response.destroy();
    return response.writeHead(Number(status.slice(0, 3)), { "content-type": "text/plain" }).end(`${why}\n`);
  };
  const url = URL.parse(incoming.url ?? "");
  if (url?.protocol !== "http:") return refuse("400", "Expected the address of an http page, or CONNECT.");
  const { hostname, port, host, pathname, search } = url;
  let socket: Socket;
  try {
    socket = await reach(judge, resolve, bare(hostname), port === "" ? 80 : Number(port));
  } catch (error) {
    return refuse(...answerTo(error));
  }
  const outgoing = request({
    // With `createConnection` Node uses no agent: a pool could reuse a connection that was judged under another name.
    createConnection: () => socket,
    method: incoming.method,
    path: `${pathname}${search}`,
    // The Host header names the host that was judged, whatever the client sent.
    headers: { ...headersOf(incoming), host, connection: "close" },
  });
  outgoing.once("response", (answer) => {
    try {
      response.writeHead(statusOf(answer), headersOf(answer));
    } catch (error) {
      answer.destroy();
      return refuse("502", `Sortie: ${messageOf(error)}.`);
    }
    // A response that breaks off is broken off here, too: nobody waits for the rest.
    return pipeline(answer, response, () => {});
  });
  // Without a listener, Node would not report an upgrade that was not requested.
  outgoing.once("upgrade", () => {
    socket.destroy();
    refuse("502", "Sortie: expected an answer, got another protocol.");
  });
  outgoing.on("error", (error) => refuse("502", `Sortie: ${messageOf(error)}.`));
  response.once("close", () => socket.destroy());
  incoming.pipe(outgoing);
  return undefined;
};
