import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { describe, expect, onTestFinished, test } from "vitest";
import { connectTo } from "../../src/tool/mcp/connection.ts";
import { reduceMessage } from "../../src/tool/mcp/message.ts";
import { McpFailure } from "../../src/tool/mcp/server.ts";

/** Servers behind an address that want to hold up, exhaust or ask out whoever calls them. */

type Answer = (id: number, out: ServerResponse) => void;
type Asked = { method: string; url: string; key: unknown; body: string };

const json = (out: ServerResponse, body: string) =>
  out.writeHead(200, { "content-type": "application/json" }).end(body);
const result = (id: number, value: string) => `{"jsonrpc":"2.0","id":${id},"result":${value}}`;
const fine = '{"content":[{"type":"text","text":"fine"}]}';

/** A server that answers calls as it is told; `on` comes first, by method or path. */
const serve = async (call: Answer, on: Record<string, (out: ServerResponse) => void> = {}) => {
  const asked: Asked[] = [];
  const server = createServer((incoming: IncomingMessage, out) => {
    const parts: Buffer[] = [];
    incoming.on("data", (part: Buffer) => parts.push(part));
    incoming.on("end", () => {
      const body = Buffer.concat(parts).toString();
      const { method: name = "", url = "", headers } = incoming;
      asked.push({ method: name, url, key: headers["x-key"], body });
      const { id, method = "" } = (body === "" || body[0] !== "{" ? {} : JSON.parse(body)) as {
        id?: number;
        method?: string;
      };
      const first = on[method] ?? on[url];
      if (first !== undefined) return first(out);
      if (method === "initialize") {
        const about = {
          protocolVersion: "2025-06-18",
          capabilities: { tools: {} },
          serverInfo: { name: "x", version: "1" },
        };
        return void json(out, result(id ?? 0, JSON.stringify(about)));
      }
      if (method === "tools/call") return call(id ?? 0, out);
      return void out.writeHead(202).end();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
};

const headers = { "x-key": "key-of-the-server" };

/** What a call gives, or in which words it fails. */
const told = async (url: string, more: object = {}): Promise<string> => {
  const life = new AbortController();
  try {
    const server = { kind: "http" as const, url: `${url}/mcp`, headers, ...more };
    const connection = await connectTo("x", server, {} as never, 1500, life.signal);
    const { ok, text } = await connection.call("t", {}, 1500, life.signal);
    await connection.close();
    return `${ok}: ${text}`;
  } catch (error) {
    return error instanceof McpFailure ? `failed: ${error.message}` : `not caught: ${String(error)}`;
  } finally {
    life.abort();
  }
};

const socketOf = (out: ServerResponse) => {
  if (out.socket === null) throw new Error("Expected a connection, got none.");
  return out.socket;
};
const deep = `${"[".repeat(10_000)}${"]".repeat(10_000)}`;

test.each<[string, Answer, RegExp]>([
  ["the control", (id, out) => json(out, result(id, fine)), /^true: fine$/],
  [
    "a result nested deeply",
    (id, out) => json(out, result(id, `{"content":[],"structuredContent":{"a":${deep}}}`)),
    /^failed: .*100 levels/,
  ],
  [
    "an error nested deeply",
    (id, out) => json(out, `{"jsonrpc":"2.0","id":${id},"error":{"code":1,"message":"","data":${deep}}}`),
    /^failed: .*100 levels/,
  ],
  [
    "another protocol",
    (_, out) =>
      void socketOf(out).write("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"),
    /^failed: .*without an answer/,
  ],
  [
    "a status beyond all",
    (_, out) => void socketOf(out).write("HTTP/1.1 650 Odd\r\ntransfer-encoding: chunked\r\n\r\n"),
    /^failed: .*650/,
  ],
  [
    "hints and no answer",
    (_, out) => void socketOf(out).write("HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n".repeat(30)),
    /^failed: .*hints/,
  ],
  ["no message", (_, out) => json(out, "[1,2]"), /^failed: .*no answer/],
  [
    "events of many forms",
    (id, out) => {
      out.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
      out.write(`: hello\r\nretry: 1\r\nevent: other\r\ndata: ${result(id, '{"content":[]}')}\r\n\r\n`);
      out.write('data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\nevent: message\nid: 1\nda');
      out.end(`ta: {"jsonrpc":"2.0","id":${id},\ndata:"result":${fine}}\n\n`);
    },
    /^true: fine$/,
  ],
])("%s", async (_, call, words) => {
  const { origin } = await serve(call);
  expect(await told(origin)).toMatch(words);
});

/**
 * Each is bounded by the limit of the call, 1.5 seconds, and by 4 MiB. `times`: how often the call may come, if not
 * once.
 */
test.each<[string, Answer, RegExp, number?]>([
  [
    "a stream of events that never ends",
    (_, out) => {
      out.writeHead(200, { "content-type": "text/event-stream" });
      const beat = setInterval(() => out.write(": still here\n\nid: 7\nretry: 0\n\n"), 20);
      out.on("close", () => clearInterval(beat));
    },
    /^failed: it did not answer in time$/,
  ],
  [
    "a stream of comments as fast as it goes",
    (_, out) => {
      out.writeHead(200, { "content-type": "text/event-stream" });
      const more = () => {
        while (!out.destroyed && out.write(`: ${"x".repeat(60_000)}\n`));
        if (!out.destroyed) out.once("drain", more);
      };
      more();
    },
    /^failed: it did not answer in time$/,
  ],
  [
    "a stream that breaks off before the answer",
    (_, out) => {
      out.writeHead(200, { "content-type": "text/event-stream" });
      out.write("id: 1\nretry: 0\ndata: {}\n\n", () => socketOf(out).destroy());
    },
    /^failed: /,
  ],
  [
    "an answer that is packed, of 200 MB",
    (id, out) => {
      out.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip" });
      const spaces = gzipSync(Buffer.alloc(1_000_000, " "));
      out.end(Buffer.concat([gzipSync(result(id, '{"content":[]}')), ...Array<Buffer>(200).fill(spaces)]));
    },
    /^failed: it answered with what is no answer$/,
  ],
  [
    "an answer of as many bytes as there are headers for",
    (id, out) => {
      out.writeHead(200, { "content-type": "application/json", "x-much": "h".repeat(1_000_000) });
      out.end(result(id, fine));
    },
    /^failed: /,
  ],
  [
    "an answer of one byte at a time",
    (id, out) => {
      out.writeHead(200, { "content-type": "application/json" });
      const text = result(id, fine).padEnd(1000);
      let at = 0;
      const beat = setInterval(() => out.write(text[at++ % 1000]), 50);
      out.on("close", () => clearInterval(beat));
    },
    /^failed: it did not answer in time$/,
  ],
  [
    "a redirect to itself",
    (_, out) => out.writeHead(307, { location: "/mcp" }).end(),
    /^failed: .*(?:307|redirect)/i,
    // The library follows it, for it may be a server's own path that has moved.
    6,
  ],
  [
    "a redirect to a file",
    (_, out) => out.writeHead(302, { location: "file:///etc/passwd" }).end(),
    /^failed: .*(?:302|redirect)/i,
  ],
  [
    "an answer to another question",
    (id, out) => json(out, result(id + 1, fine)),
    /^failed: it did not answer in time$/,
  ],
  [
    "two answers at once",
    (id, out) => json(out, `[${result(id, fine)},${result(id, '{"content":[]}')}]`),
    /^true: fine$/,
  ],
  [
    "a demand for credentials, again and again",
    (_, out) => out.writeHead(401, { "www-authenticate": 'Bearer resource_metadata="http://169.254.169.254/x"' }).end(),
    /^failed: /,
  ],
])("%s", { timeout: 15_000 }, async (_, call, words, times = 1) => {
  const { origin, asked } = await serve(call);
  const begun = performance.now();
  const said = await told(origin);
  expect(said).toMatch(words);
  expect(said.length).toBeLessThan(600);
  expect(performance.now() - begun).toBeLessThan(6000);
  expect(asked.filter(({ body }) => body.includes("tools/call"))).toHaveLength(times);
});

test("a server that never takes the last word of the beginning is not waited for", async () => {
  const { origin } = await serve(() => {}, { "notifications/initialized": () => {} });
  expect(await told(origin)).toBe("failed: it did not answer in time");
});

test("questions of a server are not answered by as many requests", async () => {
  const ping = 'data: {"jsonrpc":"2.0","id":1,"method":"ping"}\n\n';
  const call: Answer = (id, out) => {
    out.writeHead(200, { "content-type": "text/event-stream" });
    out.end(`${ping.repeat(300)}data: ${result(id, fine)}\n\n`);
  };
  /** Of the requests those that answer a question. */
  const answers = ({ asked }: { asked: readonly Asked[] }) => asked.filter(({ body }) => body.includes('"result"'));
  const ours = await serve(call);
  expect(await told(ours.origin)).toBe("true: fine");
  const control = await serve(call);
  const library = new Client({ name: "x", version: "1" });
  await library.connect(new StreamableHTTPClientTransport(new URL(`${control.origin}/mcp`)));
  await library.callTool({ name: "t", arguments: {} });
  await expect.poll(() => answers(control).length, { timeout: 10_000 }).toBe(300);
  await library.close();
  // Those under way when the call ended are cut.
  expect(answers(ours).length).toBeLessThanOrEqual(16);
});

test("the headers of a server go to it alone, not to the issuer of its tokens", async () => {
  const issuer = await serve(() => {}, {});
  const server = await serve((id, out) => json(out, result(id, fine)), {
    "/mcp": (out) => out.writeHead(401, { "www-authenticate": "Bearer" }).end(),
    "/.well-known/oauth-protected-resource/mcp": (out) =>
      json(out, JSON.stringify({ resource: `${server.origin}/mcp`, authorization_servers: [issuer.origin] })),
    initialize: (out) => out.writeHead(401, { "www-authenticate": "Bearer" }).end(),
  });
  await told(server.origin, { auth: { issuer: issuer.origin, clientID: "me", clientSecret: "secret-of-the-client" } });
  expect(server.asked[0]?.key).toBe(headers["x-key"]);
  expect(issuer.asked.length).toBeGreaterThan(0);
  expect(issuer.asked.map(({ key }) => key)).toEqual(issuer.asked.map(() => undefined));
});

describe("what is left of a message", () => {
  const left = async (value: string): Promise<unknown> => {
    const heard = await reduceMessage(`{"jsonrpc":"2.0","id":1,"result":${value}}`);
    return heard === null || "problem" in heard ? heard : (JSON.parse(heard.text) as { result: unknown }).result;
  };
  const shown = async (value: string) => ((await left(value)) as { content: [{ text: string }] }).content[0].text;

  test("parts are counted, and of unknown kinds are words", async () => {
    expect(await shown('{"content":[{"type":"text","text":"a"},{},{"type":"text","text":1}]}')).toBe(
      "a\n[a part of an unknown kind, not shown]\n",
    );
    const many = await shown(`{"content":[${"{},".repeat(200_000)}{}]}`);
    expect(many.split("\n").length).toBe(257);
    expect(many).toMatch(/\[199745 more parts, not shown\]$/);
  });

  test("a table is not indented to a multiple of itself", async () => {
    const table = `{"a":${"[".repeat(60)}${"1,".repeat(100_000)}1${"]".repeat(60)}}`;
    expect(await shown(`{"content":[],"structuredContent":${table}}`)).toBe(table);
    expect(await shown('{"content":[],"structuredContent":{"a":1}}')).toBe('{\n  "a": 1\n}');
  });

  test("a schema of very many properties is one of anything", async () => {
    const properties = (count: number) => Array.from({ length: count }, (_, at) => `"p${at}":{}`).join(",");
    const listed = (count: number) =>
      left(
        `{"tools":[{"name":"a","outputSchema":{},"inputSchema":{"type":"object","properties":{${properties(count)}}}}]}`,
      );
    expect(await listed(1)).toEqual({
      tools: [{ name: "a", inputSchema: { type: "object", properties: { p0: {} } } }],
    });
    expect(await listed(20_000)).toEqual({ tools: [{ name: "a", inputSchema: { type: "object" } }] });
  });
});
