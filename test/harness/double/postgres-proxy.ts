import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import type { AddressInfo } from "node:net";

/**
 * A way to PostgreSQL that can be cut at any message. It understands as much of the protocol as is needed to see each
 * message that a client sends, and the SQL in it.
 */

/** `count`: of all messages of all connections since the rule was set, from 1. `sql`: empty in messages without any. */
export type Sent = { count: number; sql: string };

/**
 * `cut`: the message does not reach the server. `cut after`: it does, and the connection is cut instead of the answer.
 * `hold`: nothing passes any more on this connection, and it stays open.
 */
export type Verdict = "pass" | "cut" | "cut after" | "hold";

export type PostgresProxy = AsyncDisposable & {
  url: string;
  /** From now on; undefined lets all pass. */
  rule(judge: ((sent: Sent) => Verdict) | undefined): void;
  /** Cuts all connections, and refuses new ones until `open`. */
  down(): void;
  open(): void;
  /** Cuts all connections once. */
  cutAll(): void;
  cuts(): number;
};

export const startPostgresProxy = async (url: string): Promise<PostgresProxy> => {
  const target = new URL(url);
  const pairs = new Set<{ client: Socket; server: Socket }>();
  let judge: ((sent: Sent) => Verdict) | undefined;
  let count = 0;
  let cuts = 0;
  let refuses = false;

  const listener = createServer({ noDelay: true }, (client) => {
    if (refuses) return void client.destroy();
    const server = connect({
      port: Number(target.port === "" ? 5432 : target.port),
      host: target.hostname,
      noDelay: true,
    });
    const pair = { client, server };
    pairs.add(pair);
    const cut = () => {
      if (!pairs.delete(pair)) return;
      client.destroy();
      server.destroy();
    };
    let lost = false;
    let held = false;
    let begun = false;
    let rest: Buffer = Buffer.alloc(0);
    client.on("data", (chunk: Buffer) => {
      rest = Buffer.concat([rest, chunk]);
      for (;;) {
        // The first message has no type before its length.
        const at = begun ? 1 : 0;
        const length = rest.length < at + 4 ? Number.POSITIVE_INFINITY : at + rest.readInt32BE(at);
        if (rest.length < length) return;
        const message = rest.subarray(0, length);
        rest = rest.subarray(length);
        const verdict = begun ? verdictOn(message) : "pass";
        begun = true;
        if (verdict !== "pass") cuts += 1;
        if (verdict === "cut") return cut();
        if (verdict === "hold") held = true;
        if (verdict === "cut after") lost = true;
        if (held) return;
        server.write(message);
      }
    });
    server.on("data", (chunk) => {
      if (lost) return cut();
      if (!held) client.write(chunk);
    });
    for (const socket of [client, server]) {
      socket.on("error", cut);
      socket.on("close", cut);
    }
  });

  const verdictOn = (message: Buffer): Verdict => {
    const type = String.fromCharCode(message[0] ?? 0);
    count += 1;
    if (judge === undefined) return "pass";
    // Query: its text. Parse: the statement's name, then its text.
    const texts = type === "Q" || type === "P" ? message.subarray(5).toString().split("\0") : [];
    return judge({ count, sql: texts[type === "P" ? 1 : 0] ?? "" });
  };

  const cutAll = () => {
    for (const { client, server } of pairs) {
      client.destroy();
      server.destroy();
    }
    pairs.clear();
  };

  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  const way = new URL(url);
  way.hostname = "127.0.0.1";
  way.port = String((listener.address() as AddressInfo).port);
  return {
    url: way.href,
    rule(next) {
      judge = next;
      count = 0;
    },
    down() {
      refuses = true;
      cutAll();
    },
    open() {
      refuses = false;
    },
    cutAll,
    cuts: () => cuts,
    async [Symbol.asyncDispose]() {
      cutAll();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
};
