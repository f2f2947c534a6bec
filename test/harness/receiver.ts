import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Webhook } from "standardwebhooks";
import type { WebhookMessage } from "../../src/protocol/webhook.ts";
import { until } from "./project.ts";

/** Somebody who is told by webhooks: a real server on this machine. */

export type Received = {
  path: string;
  headers: Record<string, string>;
  body: string;
  message: WebhookMessage;
  /** Milliseconds, by `performance.now()`. */
  at: number;
};

export type Receiver = AsyncDisposable & {
  url: string;
  port: number;
  received: Received[];
  /** Waits until so many came. */
  got(count: number, ms?: number): Promise<Received[]>;
  types(): string[];
};

/** `answer`: what it says to each; default 204. */
export const startReceiver = async (
  answer: (received: Received, response: ServerResponse) => void = (_, response) => response.writeHead(204).end(),
  port = 0,
): Promise<Receiver> => {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("error", () => {});
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body = Buffer.concat(chunks).toString();
      const one: Received = {
        path: request.url ?? "",
        headers: request.headers as Record<string, string>,
        body,
        message: JSON.parse(body) as WebhookMessage,
        at: performance.now(),
      };
      received.push(one);
      answer(one, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const { port: taken } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${taken}`,
    port: taken,
    received,
    got: (count, ms) =>
      until(
        () => Promise.resolve(received),
        (all) => all.length >= count,
        ms,
      ),
    types: () => received.map(({ message }) => message.type),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
};

/** As a receiver checks it, by a library that is not ours; throws when it must not be believed. */
export const verified = (secret: string, { body, headers }: Pick<Received, "body" | "headers">): WebhookMessage =>
  new Webhook(secret).verify(body, headers) as WebhookMessage;
