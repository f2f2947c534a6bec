import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { messageOf, ServiceError, StartError, statusOf } from "../error.ts";
import type { Log } from "../log.ts";
import { parseAddress } from "../repository/address.ts";
import type { ForgeKind } from "../repository/repository.ts";
import type { ForgeEvent, Read } from "./event.ts";
import { readGitea } from "./gitea.ts";
import { readGitHub } from "./github.ts";
import { readGitLab } from "./gitlab.ts";
import type { Taken } from "./intake.ts";
import type { EventEntry } from "./settings.ts";
import { isSigned, nameOf } from "./signature.ts";

/**
 * A listener of its own for events of forges: POST /github, /gitlab, /gitea, and nothing else. A body is parsed only once
 * its signature is right, and counts only for repositories of the entry whose secret signed it.
 */

export type ForgeListenerDeps = {
  entries: readonly EventEntry[];
  take: (kind: ForgeKind, entry: EventEntry, event: ForgeEvent, body: Uint8Array) => Promise<Taken>;
  log: Log;
};

const readers: Readonly<Record<ForgeKind, Read>> = { github: readGitHub, gitlab: readGitLab, gitea: readGitea };

const bodyBytes = 5 * 1024 * 1024;
const connectionsAtMost = 256;
const graceMs = 5_000;

type Answer = { status: number; body: object };

const refused = (status: number, message: string): Answer => ({ status, body: { message } });

export const listenForForges = async (
  { entries, take, log }: ForgeListenerDeps,
  { host, port }: { host: string; port: number },
) => {
  const answer = async (incoming: IncomingMessage): Promise<Answer> => {
    const kind = incoming.url?.slice(1) ?? "";
    if (!isKind(kind)) return refused(404, "Expected POST /github, /gitlab or /gitea.");
    if (incoming.method !== "POST") return refused(405, "Expected POST.");
    const body = await bodyOf(incoming);
    if (body === undefined) return refused(413, `Expected at most ${bodyBytes} bytes.`);
    const signers = entries.filter(
      (entry) => entry.forge === kind && isSigned(kind, incoming.headers, body, entry.secret()),
    );
    if (signers.length === 0) return refused(401, "Expected the signature of a secret of repositories.events.");
    const name = nameOf(kind, incoming.headers);
    let parsed: unknown;
    try {
      parsed = JSON.parse(Buffer.from(body).toString("utf8"));
    } catch {
      return refused(400, "Expected JSON (content type application/json).");
    }
    const event = readers[kind](name, parsed);
    if (typeof event === "string") return { status: 200, body: { ignored: event } };
    const address = parseAddress(event.repository);
    const entry = signers.find(({ pattern }) => pattern.matches(address));
    if (entry === undefined) return refused(403, "Expected a repository of the entry whose secret signed this.");
    const taken = await take(kind, entry, event, body);
    log.info({ forge: kind, event: name, repository: event.repository, ...taken }, "a forge's event");
    return { status: "ignored" in taken ? 200 : 202, body: taken };
  };

  const server = createServer(
    { maxHeaderSize: 16 * 1024, headersTimeout: 10_000, requestTimeout: 30_000, keepAliveTimeout: 5_000 },
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
  server.maxConnections = connectionsAtMost;
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

const isKind = (text: string): text is ForgeKind => text in readers && Object.hasOwn(readers, text);

/** undefined: it is too long. */
const bodyOf = async (incoming: IncomingMessage): Promise<Uint8Array | undefined> => {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of incoming as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > bodyBytes) return undefined;
    parts.push(part);
  }
  return Buffer.concat(parts);
};

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
