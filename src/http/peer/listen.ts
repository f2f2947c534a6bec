import { hash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { ServiceError, StartError } from "../../error.ts";
import type { Log } from "../../log.ts";
import type { Limits } from "../../protocol/limit.ts";
import { keepBody } from "../request/body.ts";
import { drain, failureOf, openEntry, send } from "../response/response.ts";
import { createVerifier } from "./signature.ts";

/** The listener that answers other nodes alone. */

export type PeerAddress = { url: string; host: string; port: number };

export type PeerListening = AsyncDisposable & {
  /** Where other nodes reach it. */
  url: string;
};

type Options = { key: Uint8Array; name: string; now: () => Date; limits: Pick<Limits, "bodyBytes">; log: Log };

const graceMs = 5_000;

/** Throws `StartError` where the address cannot be listened on. */
export const listenToPeers = async (
  answer: (incoming: IncomingMessage, outgoing: ServerResponse) => void,
  { url, host, port }: PeerAddress,
  { key, name, now, limits, log }: Options,
): Promise<PeerListening> => {
  const verify = createVerifier(key, name, now);
  const server = createServer(
    { maxHeaderSize: 16 * 1024, headersTimeout: 10_000, requestTimeout: 30_000, keepAliveTimeout: 5_000 },
    (incoming, outgoing) => {
      const refuse = (code: "unauthorized" | "body_too_large", message: string) => {
        const entry = openEntry(incoming.socket.remoteAddress ?? "");
        send(outgoing, entry, failureOf(new ServiceError(code, message), entry.requestID, log));
        drain(incoming);
      };
      // Before a byte of the body is read.
      const claimed = verify(incoming.method ?? "", incoming.url ?? "", incoming.headers);
      if (claimed === undefined) return refuse("unauthorized", "Expected a request of a node of this database.");
      bodyOf(incoming, limits.bodyBytes).then(
        (body) => {
          if (body === undefined) return refuse("body_too_large", "Expected a shorter body.");
          if (hash("sha256", body) !== claimed.sha256)
            return refuse("unauthorized", "Expected the body that was signed.");
          keepBody(incoming, body);
          answer(incoming, outgoing);
        },
        () => outgoing.destroy(),
      );
    },
  );
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) =>
      reject(new StartError(69, `SERVICE_NODE_URL: ${host}:${port} cannot be listened on: ${error.message}.`)),
    );
    server.listen(port, host, resolve);
  });
  const bound = (server.address() as AddressInfo).port;
  return {
    url: port === 0 ? Object.assign(new URL(url), { port: String(bound) }).href : url,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeIdleConnections();
      const timer = setTimeout(() => server.closeAllConnections(), graceMs);
      await closed;
      clearTimeout(timer);
    },
  };
};

/** undefined: it is too long. */
const bodyOf = async (incoming: IncomingMessage, limit: number): Promise<Buffer | undefined> => {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of incoming as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > limit) return undefined;
    parts.push(part);
  }
  return Buffer.concat(parts);
};
