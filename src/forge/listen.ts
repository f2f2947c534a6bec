import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { messageOf, ServiceError, StartError, statusOf } from "../error.ts";
import type { Log } from "../log.ts";
import { parseAddress } from "../repository/address.ts";
import type { ForgeKind } from "../repository/repository.ts";
import type { ForgeEvent } from "./event.ts";
import type { Taken } from "./intake.ts";
import { isKind, readEvent } from "./read.ts";
import type { EventEntry } from "./settings.ts";
import { nameOf, signatureOf } from "./signature.ts";

/**
 * A separate listener for events of forges: POST /github, /gitlab, /gitea, and nothing else. A body is parsed only
 * after its signature has been verified, and counts only for repositories of the entry whose secret signed it.
 */

export type ForgeListenerDeps = {
  entries: readonly EventEntry[];
  take: (kind: ForgeKind, entry: EventEntry, event: ForgeEvent, body: Uint8Array) => Promise<Taken>;
  log: Log;
};

const bodyBytes = 5 * 1024 * 1024;
/**
 * Above these limits, the oldest connection whose body has not arrived is closed, so that nobody can keep events out by
 * sending nothing.
 */
const connectionsAtMost = 256;
const bytesAtMost = 64 * 1024 * 1024;
const graceMs = 5_000;

type Answer = { status: number; body: object };

const refused = (status: number, message: string): Answer => ({ status, body: { message } });

export const listenForForges = async (
  { entries, take, log }: ForgeListenerDeps,
  { host, port }: { host: string; port: number },
) => {
  const coming = createComing();
  const answer = async (incoming: IncomingMessage): Promise<Answer> => {
    const kind = incoming.url?.slice(1) ?? "";
    if (!isKind(kind)) return refused(404, "Expected POST /github, /gitlab or /gitea.");
    if (incoming.method !== "POST") return refused(405, "Expected POST.");
    const signatures = entries.flatMap((entry) => {
      const signature = entry.forge === kind ? signatureOf(kind, incoming.headers, entry.secret()) : undefined;
      return signature === undefined ? [] : [{ entry, signature }];
    });
    if (signatures.length === 0) return unsigned;
    const body = await bodyOf(incoming, (part) => {
      for (const { signature } of signatures) signature.take(part);
      coming.took(incoming.socket, part.length);
    });
    coming.came(incoming.socket);
    if (body === undefined) return refused(413, `Expected at most ${bodyBytes} bytes.`);
    const signers = signatures.flatMap(({ entry, signature }) => (signature.isRight() ? [entry] : []));
    if (signers.length === 0) return unsigned;
    const name = nameOf(kind, incoming.headers);
    const said = await readEvent({ kind, name, body });
    if ("refused" in said) return refused(400, `Expected ${said.refused}.`);
    if ("ignored" in said) return { status: 200, body: said };
    const { event } = said;
    const address = parseAddress(event.repository);
    const entry = signers.find(({ pattern }) => pattern.matches(address));
    if (entry === undefined) return refused(403, "Expected a repository of the entry whose secret signed this.");
    const taken = await take(kind, entry, event, body);
    log.info({ forge: kind, event: name, repository: event.repository, ...taken }, "a forge's event");
    return { status: "ignored" in taken ? 200 : 202, body: taken };
  };

  const server = createServer(
    { maxHeaderSize: 16 * 1024, headersTimeout: 10_000, requestTimeout: 30_000, connectionsCheckingInterval: 5_000 },
    (incoming, outgoing) => {
      void answer(incoming)
        .catch((error: unknown): Answer => {
          if (error instanceof ServiceError)
            return { status: statusOf[error.code], body: { message: error.message, code: error.code } };
          log.error({ error: messageOf(error) }, "a forge's event could not be processed");
          return refused(500, "The event could not be processed. Deliver it again.");
        })
        .then((said) => send(outgoing, said));
    },
  );
  server.on("connection", (socket) => coming.opened(socket));
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) =>
      reject(new StartError(69, `SERVICE_FORGE_PORT: ${host}:${port} cannot be listened on: ${error.message}.`)),
    );
    server.listen(port, host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    async close(): Promise<void> {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeIdleConnections();
      const timer = setTimeout(() => server.closeAllConnections(), graceMs);
      await closed;
      clearTimeout(timer);
    },
  };
};

const unsigned = refused(401, "Expected the signature of a secret of repositories.events.");

/** Tracks the connections whose bodies have not arrived yet, oldest first, and how many bytes they hold. */
const createComing = () => {
  const held = new Map<Socket, number>();
  let bytes = 0;
  const leave = (socket: Socket) => {
    bytes -= held.get(socket) ?? 0;
    held.delete(socket);
  };
  const bound = () => {
    for (const socket of held.keys()) {
      if (held.size <= connectionsAtMost && bytes <= bytesAtMost) return;
      leave(socket);
      socket.destroy();
    }
  };
  return {
    opened(socket: Socket) {
      held.set(socket, 0);
      socket.once("close", () => leave(socket));
      bound();
    },
    took(socket: Socket, size: number) {
      if (!held.has(socket)) return;
      held.set(socket, (held.get(socket) ?? 0) + size);
      bytes += size;
      bound();
    },
    came: leave,
  };
};

/** The body; undefined: it is too long. The connection stays open for the answer. */
const bodyOf = (incoming: IncomingMessage, take: (part: Buffer) => void): Promise<Uint8Array | undefined> =>
  new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let bytes = 0;
    incoming.on("data", (part: Buffer) => {
      bytes += part.length;
      if (bytes > bodyBytes) return resolve(undefined);
      take(part);
      parts.push(part);
    });
    incoming.once("end", () => resolve(Buffer.concat(parts)));
    incoming.once("error", reject);
    incoming.once("close", () => reject(new Error("the connection ended before the body")));
  });

const send = (outgoing: ServerResponse, { status, body }: Answer): void => {
  if (outgoing.destroyed) return;
  const text = JSON.stringify(body);
  const headers = {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(text),
    connection: "close",
  };
  outgoing.writeHead(status, headers).end(text);
};
