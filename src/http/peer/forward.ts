import { type ClientRequest, type IncomingMessage, request, type ServerResponse } from "node:http";
import { pipeline } from "node:stream";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import type { RequestContext } from "../response/response.ts";
import { peerHeader, sign } from "./signature.ts";

/** Forwards a request to the node that has the files for it, and streams its answer back. */

export type Peers = {
  /** This node's name. */
  name: string;
  /** The address where a node answers other nodes; undefined: it has none, or is down. */
  addressOf(node: string): Promise<string | undefined>;
  key(): Promise<Uint8Array>;
  /** The time on the clock that all nodes share. */
  now(): Date;
  log: Log;
};

/** Time to establish the connection. */
const connectMs = 3_000;
/** Time without a byte of the answer; long, because an archive is built before it is sent. */
const silentMs = 300_000;

/** Request headers that mean the same to the other node. */
const passedOn = [
  "accept",
  "content-type",
  "if-none-match",
  "idempotency-key",
  "x-service-directory",
  // Two nodes may have a directory with the same path.
  "x-service-node",
];
/** Response headers that belong to the connection, or that this node sets itself. */
const keptBack: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "transfer-encoding",
  "date",
  "x-request-id",
  "access-control-allow-origin",
  "access-control-expose-headers",
  "vary",
]);

/** Resolves to false when nothing was answered: the node has no address, or cannot be reached. */
export const forward = async (
  peers: Peers,
  node: string,
  {
    incoming,
    outgoing,
    entry,
    body,
  }: { incoming: IncomingMessage; outgoing: ServerResponse; entry: RequestContext; body: Uint8Array },
): Promise<boolean> => {
  try {
    const address = await peers.addressOf(node);
    if (address === undefined) return false;
    const { method = "GET", url: target = "/", headers } = incoming;
    const signature = sign(await peers.key(), { method, target, from: peers.name, to: node, body }, peers.now());
    const sent = request(new URL(target, address), {
      method,
      headers: {
        ...Object.fromEntries(passedOn.flatMap((name) => (headers[name] === undefined ? [] : [[name, headers[name]]]))),
        ...(body.length === 0 ? {} : { "content-length": String(body.length) }),
        [peerHeader]: signature,
      },
      // No pooled connection: one that the other node has just closed would look like a node that is down.
      agent: false,
    });
    const stop = () => sent.destroy();
    outgoing.once("close", stop);
    sent.end(body);
    const answered = await answerOf(sent);
    outgoing.off("close", stop);
    // The other node did not accept the signature: its key differs, or its clock is far off.
    if (answered.statusCode === 401) {
      answered.resume();
      peers.log.warn({ node }, "a node refused a request of this one as no node's");
      return false;
    }
    const kept = Object.entries(answered.headers).filter(([name]) => !keptBack.has(name));
    outgoing.writeHead(answered.statusCode ?? 502, { ...Object.fromEntries(kept), ...entry.headers });
    pipeline(answered, outgoing, () => {});
    return true;
  } catch (error) {
    peers.log.warn({ node, error: messageOf(error) }, "a node could not be asked");
    return false;
  }
};

const answerOf = (sent: ClientRequest): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(() => sent.destroy(new Error("no connection within three seconds")), connectMs);
    sent.once("socket", (socket) => socket.once("connect", () => clearTimeout(timer)));
    sent.setTimeout(silentMs, () => sent.destroy(new Error("no answer within five minutes")));
    sent.once("response", resolve);
    sent.once("error", reject);
    sent.once("close", () => {
      clearTimeout(timer);
      reject(new Error("the connection was closed"));
    });
  });
