import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { ServiceError, StartError } from "../../error.ts";
import type { Log } from "../../log.ts";
import { expectBody } from "../request/body.ts";
import { drain, failureOf, openEntry, send } from "../response/response.ts";
import { createVerifier } from "./signature.ts";

/** The listener for requests of other nodes only. */

export type PeerAddress = { url: string; host: string; port: number };

export type PeerListening = AsyncDisposable & {
  /** The URL at which other nodes reach this one. */
  url: string;
};

type Options = { key: Uint8Array; name: string; now: () => Date; log: Log };

const graceMs = 5_000;

/** Rejects with `StartError` when the address cannot be listened on. */
export const listenToPeers = async (
  answer: (incoming: IncomingMessage, outgoing: ServerResponse) => void,
  { url, host, port }: PeerAddress,
  { key, name, now, log }: Options,
): Promise<PeerListening> => {
  const verify = createVerifier(key, name, now);
  const server = createServer(
    { maxHeaderSize: 16 * 1024, headersTimeout: 10_000, requestTimeout: 30_000, keepAliveTimeout: 5_000 },
    (incoming, outgoing) => {
      // Verified before a byte of the body is read. The body is then read within the limits of its route, and compared
      // with the signed hash.
      const claimed = verify(incoming.method ?? "", incoming.url ?? "", incoming.headers);
      if (claimed !== undefined) {
        expectBody(incoming, claimed.sha256);
        return answer(incoming, outgoing);
      }
      const entry = openEntry(incoming.socket.remoteAddress ?? "");
      const error = new ServiceError("unauthorized", "Expected a request of a node of this database.");
      send(outgoing, entry, failureOf(error, entry.requestID, log));
      drain(incoming);
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
