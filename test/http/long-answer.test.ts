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
