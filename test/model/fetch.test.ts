import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { createFetch } from "../../src/model/provider/fetch.ts";

/** The way to a provider by itself: its connections, and what it refuses. The rest is in `model.test.ts`. */

const patience = { firstMs: 5_000, silentMs: 5_000, replyMs: 5_000 };
let close = async () => {};
afterEach(() => close());

const start = async (answer: (incoming: IncomingMessage, outgoing: ServerResponse) => unknown): Promise<string> => {
  const server = createServer((incoming, outgoing) => void answer(incoming, outgoing));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};

const textOf = async (incoming: IncomingMessage): Promise<string> => {
  let text = "";
  for await (const piece of incoming) text += String(piece);
  return text;
};

test("a request as the packages make it, its answer with all headers, on a kept connection", async () => {
  const sockets = new Set<Socket>();
  const origin = await start(async (incoming, outgoing) => {
    sockets.add(incoming.socket);
    const { method, url, headers } = incoming;
    const got = [method, url, headers["x-key"], headers["accept-encoding"], headers["content-length"]];
    outgoing.writeHead(
      201,
      "Made",
      [
        ["x-a", "1"],
        ["x-a", "2"],
      ].flat(),
    );
    outgoing.end(JSON.stringify([...got, await textOf(incoming)]));
  });
  const fetch = createFetch(origin, patience);
  for (let round = 0; round < 3; round += 1) {
    const response = await fetch(`${origin}/chat?a=b`, { method: "POST", headers: { "X-Key": "k" }, body: "née" });
    expect([response.status, response.statusText, response.headers.get("x-a")]).toEqual([201, "Made", "1, 2"]);
    expect(await response.json()).toEqual(["POST", "/chat?a=b", "k", "identity", "4", "née"]);
  }
  expect(sockets.size).toBe(1);
});

test("an answer without a body", async () => {
  const origin = await start((_, outgoing) => outgoing.writeHead(204).end());
  const response = await createFetch(origin, patience)(origin);
  expect([response.status, response.body]).toEqual([204, null]);
});

test("a kept connection that was closed meanwhile is replaced; a new one that breaks is a failure", async () => {
  const uses = new Map<Socket, number>();
  const origin = await start((incoming, outgoing) => {
    const use = (uses.get(incoming.socket) ?? 0) + 1;
    uses.set(incoming.socket, use);
    if (use > 1 || incoming.url === "/broken") incoming.socket.destroy();
    else outgoing.end("fine");
  });
  const fetch = createFetch(origin, patience);
  for (let round = 0; round < 3; round += 1) expect(await (await fetch(origin)).text()).toBe("fine");
  // Each was used a second time, and broke.
  expect([...uses.values()]).toEqual([2, 2, 1]);
  await expect(fetch(`${origin}/broken`)).rejects.toMatchObject({ code: "ECONNRESET" });
});

test("an answer that is packed although nobody asked for it is refused by name", async () => {
  const origin = await start((_, outgoing) => outgoing.writeHead(200, { "content-encoding": "gzip" }).end("x"));
  await expect(createFetch(origin, patience)(origin)).rejects.toThrow("the answer is compressed (gzip)");
});

test("another origin, a redirect and a body that is no text are refused", async () => {
  let seen = 0;
  const origin = await start((_, outgoing) => {
    seen += 1;
    outgoing.writeHead(307, { location: "/there" }).end();
  });
  const fetch = createFetch(origin, patience);
  await expect(fetch("http://127.0.0.1:1/")).rejects.toThrow(`the request would leave ${origin}`);
  await expect(fetch(origin, { method: "POST", body: new FormData() })).rejects.toThrow("Expected text as the body");
  expect(seen).toBe(0);
  await expect(fetch(origin)).rejects.toThrow("the answer is a redirect (307)");
  expect(seen).toBe(1);
});

test("a line without end is cut; control: as many bytes in lines are an answer", async () => {
  const bytes = 8 * 1024 * 1024;
  const origin = await start(({ url }, outgoing) =>
    outgoing.end(url === "/line" ? "x".repeat(bytes) : `${"x".repeat(1023)}\n`.repeat(bytes / 1024)),
  );
  const fetch = createFetch(origin, patience);
  await expect(fetch(`${origin}/line`).then((response) => response.text())).rejects.toThrow("a line of more than");
  expect((await (await fetch(`${origin}/lines`)).text()).length).toBe(bytes);
});
