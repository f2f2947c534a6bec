import { createServer, get, type IncomingMessage } from "node:http";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { writeLong } from "../../src/http/response/response.ts";

/** Long answers go out in pieces: whole, however slowly they are read, and given up when their reader has gone. */

const text = `${"é".repeat(100)}${"long ".repeat(400_000)}`;
let ended: Promise<void>;
/** Turns of the loop while the newest answer went out. */
let turns = 0;
const server = createServer((incoming, outgoing) => {
  let going = true;
  turns = 0;
  const count = () => {
    turns += 1;
    if (going) setImmediate(count);
  };
  setImmediate(count);
  const body = incoming.url === "/bytes" ? Buffer.from(text) : incoming.url === "/short" ? "short" : text;
  ended = writeLong(outgoing, { status: 200, headers: { "content-type": "text/plain" }, body }).finally(() => {
    going = false;
  });
});
let url = "";

beforeAll(async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  url = `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
});
afterAll(() => server.close());

const ask = (path: string, method = "GET"): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => get(`${url}${path}`, { method }, resolve).on("error", reject));

test("an answer comes whole, as text and as bytes, and others have their turns meanwhile; control: none for a short one", async () => {
  for (const path of ["/text", "/bytes"]) {
    const answer = await fetch(`${url}${path}`);
    expect(Number(answer.headers.get("content-length"))).toBe(Buffer.byteLength(text));
    expect((await answer.text()) === text).toBe(true);
    await ended;
    expect(turns).toBeGreaterThan(Math.floor(Buffer.byteLength(text) / 65_536));
  }
  expect(await (await fetch(`${url}/short`)).text()).toBe("short");
  await ended;
  expect(turns).toBeLessThan(3);
});

test("HEAD has its length and no body", async () => {
  const answer = await ask("/text", "HEAD");
  expect(answer.headers["content-length"]).toBe(String(Buffer.byteLength(text)));
  expect((await answer.toArray()).length).toBe(0);
  await ended;
});

test("a reader that has gone ends it; control: one that only waits has all of it in the end", async () => {
  const gone = await ask("/text");
  gone.destroy();
  await ended;
  const slow = await ask("/text");
  slow.pause();
  await pause(50);
  const parts = (await slow.toArray()) as Buffer[];
  expect(Buffer.concat(parts).toString() === text).toBe(true);
  await ended;
});

/** A blob of eight pieces. `fault`: of the piece with this number. */
const blobOf = (fault?: number) => {
  const piece = Buffer.alloc(1024 ** 2, "blob ");
  const state = { given: 0, isClosed: false };
  const pieces = async function* () {
    try {
      for (let n = 0; n < 8; n += 1) {
        if (n === fault) throw new Error("it cannot be read");
        state.given += 1;
        yield piece;
      }
    } finally {
      state.isClosed = true;
    }
  };
  return {
    state,
    body: { bytes: 8 * piece.length, pieces: pieces() },
    whole: Buffer.concat(Array.from({ length: 8 }, () => piece)),
  };
};

/** Answers one request with the blob. */
const serveBlob = async (body: ReturnType<typeof blobOf>["body"]) => {
  let sent: Promise<unknown> = Promise.resolve();
  const serving = createServer((_incoming, outgoing) => {
    sent = writeLong(outgoing, { status: 200, headers: {}, body }).then(
      () => "sent",
      (error: Error) => {
        const reason = `${outgoing.headersSent ? "broken off" : "refused"}: ${error.message}`;
        outgoing.destroy();
        return reason;
      },
    );
  }).listen(0, "127.0.0.1");
  await once(serving, "listening");
  const address = serving.address();
  return {
    url: `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`,
    sent: () => sent,
    [Symbol.dispose]: () => void serving.close(),
  };
};

test("a blob is read as its reader takes it, and closed when that has gone; control: one that waits has all of it", async () => {
  const left = blobOf();
  using leaving = await serveBlob(left.body);
  const gone = await new Promise<IncomingMessage>((resolve, reject) => get(leaving.url, resolve).on("error", reject));
  gone.pause();
  await pause(200);
  // What the sockets hold besides.
  expect(left.state.given).toBeLessThan(8);
  expect(left.state.isClosed).toBe(false);
  gone.destroy();
  await expect.poll(() => left.state.isClosed).toBe(true);
  expect(await leaving.sent()).toMatch(/^broken off/);
  const whole = blobOf();
  using staying = await serveBlob(whole.body);
  const answer = await fetch(staying.url);
  expect(answer.headers.get("content-length")).toBe(String(whole.body.bytes));
  expect(Buffer.from(await answer.arrayBuffer()).equals(whole.whole)).toBe(true);
  expect([await staying.sent(), whole.state]).toEqual(["sent", { given: 8, isClosed: true }]);
});

test("a blob that cannot be read is refused before anything is sent, and else broken off, never shorter; HEAD reads none", async () => {
  using refused = await serveBlob(blobOf(0).body);
  await expect(fetch(refused.url)).rejects.toThrow();
  expect(await refused.sent()).toBe("refused: it cannot be read");
  using broken = await serveBlob(blobOf(3).body);
  const answer = await fetch(broken.url);
  await expect(answer.arrayBuffer()).rejects.toThrow();
  expect(await broken.sent()).toBe("broken off: it cannot be read");
  const unread = blobOf();
  using asked = await serveBlob(unread.body);
  const head = await fetch(asked.url, { method: "HEAD" });
  expect([head.headers.get("content-length"), await asked.sent(), unread.state.given]).toEqual([
    String(unread.body.bytes),
    "sent",
    0,
  ]);
});
