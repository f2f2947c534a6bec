import { createConnection, type Socket } from "node:net";
import { expect, test, vi } from "vitest";
import { createConnections } from "../../../src/http/guard/connection.ts";
import { createDouble, raw } from "../mission/double.ts";

/** Which connections are kept, and who may still try a password: nobody without it keeps out those who have it. */

const auth = { username: "service", password: "right" };
const credentials = (password: string) => `Basic ${btoa(`service:${password}`)}`;
const get = (password?: string) =>
  `GET /health HTTP/1.1\r\nHost: localhost\r\n${password === undefined ? "" : `Authorization: ${credentials(password)}\r\n`}\r\n`;

/** A connection that stays, and the status lines that came on it. */
const connect = async (port: number, localAddress = "127.0.0.1") => {
  const socket = createConnection({ port, host: "127.0.0.1", localAddress });
  let text = "";
  socket.on("data", (chunk) => (text += chunk.toString("latin1")));
  socket.on("error", () => {});
  const opened = await new Promise<boolean>((resolve) => {
    socket.once("connect", () => resolve(true));
    socket.once("close", () => resolve(false));
  });
  return {
    socket,
    opened,
    ask: (bytes: string) => void socket.write(bytes),
    statuses: () => [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status)),
    text: () => text,
    get closed() {
      return socket.destroyed;
    },
    [Symbol.dispose]: () => void socket.destroy(),
  };
};
type Client = Awaited<ReturnType<typeof connect>>;

const crowd = async (port: number, count: number, address?: string): Promise<Client[]> => {
  const made: Client[] = [];
  for (let index = 0; index < count; index += 1) made.push(await connect(port, address));
  return made;
};
const settled = { timeout: 8000, interval: 20 };

test("of one address 64 idle connections stay, the youngest; those of others are not touched", async () => {
  await using double = await createDouble({ auth });
  using other = await connect(double.port, "127.0.0.2");
  const many = await crowd(double.port, 80);
  try {
    const open = () => many.map(({ closed }) => !closed);
    const expected = [...Array.from({ length: 16 }, () => false), ...Array.from({ length: 64 }, () => true)];
    await vi.waitFor(() => expect(open()).toEqual(expected), settled);
    await new Promise((resolve) => setTimeout(resolve, 400));
    expect([open(), other.closed]).toEqual([expected, false]);
    // Who is within the bound is answered.
    many.at(-1)?.ask(get("right"));
    await vi.waitFor(() => expect(many.at(-1)?.statuses()).toEqual([200]), settled);
  } finally {
    for (const client of many) client.socket.destroy();
  }
});

test("the right password is served among hundreds of idle connections, and its connection stays", async () => {
  await using double = await createDouble({ auth });
  using known = await connect(double.port);
  known.ask(get("right"));
  await vi.waitFor(() => expect(known.statuses()).toEqual([200]), settled);
  const many: Client[] = [];
  try {
    // Some say nothing, some ask without the password; more than the bound of all together, from many addresses.
    for (let address = 1; address <= 6; address += 1)
      many.push(...(await crowd(double.port, 60, `127.0.0.${address}`)));
    for (const client of many.slice(0, 100)) client.ask(get());
    const answers = [];
    for (let count = 0; count < 40; count += 1)
      answers.push((await raw(double.port, get("right"), 50, 5000)).text.slice(9, 12));
    expect(answers).toEqual(Array.from({ length: 40 }, () => "200"));
    await vi.waitFor(() => expect(many.filter(({ closed }) => !closed).length).toBeLessThanOrEqual(256), settled);
    known.ask(get("right"));
    await vi.waitFor(() => expect(known.statuses()).toEqual([200, 200]), settled);
    expect(known.text()).toContain("Keep-Alive: timeout=65");
  } finally {
    for (const client of many) client.socket.destroy();
  }
});

test("who is answered is never closed, who is known only after all that are not", () => {
  vi.useFakeTimers();
  try {
    let now = 0;
    const limits = { idlePerAddress: 2, total: 4, crowd: 6, graceMs: 10 };
    const connections = createConnections(limits, () => now);
    const closed: string[] = [];
    const open = (name: string, remoteAddress = "a") =>
      connections.opened({
        remoteAddress,
        once: (_event: string, _listener: () => void) => {},
        destroy: () => void closed.push(name),
      } as unknown as Socket);
    const pass = (ms: number) => ((now += ms), vi.advanceTimersByTime(ms));
    const [busy, known] = [open("busy"), open("known")];
    connections.passed(busy);
    connections.passed(known);
    connections.answered(known);
    for (const name of ["1", "2", "3"]) open(name);
    // A moment ago: they may still send their request.
    expect(closed).toEqual([]);
    pass(30);
    expect(closed).toEqual(["1", "2"]);
    // Six in all are the crowd's bound: beyond it nobody is given time.
    for (const name of ["4", "5", "6", "7"]) open(name, "b");
    expect(closed).toEqual(["1", "2", "3"]);
    pass(30);
    expect(closed).toEqual(["1", "2", "3", "4", "5"]);
  } finally {
    vi.useRealTimers();
  }
});

const status = async (port: number, password?: string, head = "") =>
  (await raw(port, get(password).replace("\r\n\r\n", `\r\n${head}Connection: close\r\n\r\n`), 3000)).text.slice(9, 12);

test("guesses are limited on loopback, from all of its addresses together; who is in stays in", async () => {
  let now = 0;
  await using double = await createDouble({ auth, now: () => now });
  using inside = await connect(double.port);
  inside.ask(get("right"));
  await vi.waitFor(() => expect(inside.statuses()).toEqual([200]), settled);
  // What carries no guess is not counted: a health check, a browser's first request, another scheme.
  for (let count = 0; count < 15; count += 1) expect(await status(double.port)).toBe("401");
  expect(await status(double.port, "right")).toBe("200");
  const guesses = [];
  for (let count = 0; count < 30; count += 1) {
    using guesser = await connect(double.port, `127.0.0.${1 + (count % 9)}`);
    guesser.ask(get(`guess ${count}`));
    await vi.waitFor(() => expect(guesser.statuses()).toHaveLength(1), settled);
    guesses.push(...guesser.statuses());
  }
  expect(guesses).toEqual([...Array.from({ length: 10 }, () => 401), ...Array.from({ length: 20 }, () => 429)]);
  // A right guess is not told from a wrong one meanwhile.
  expect(await status(double.port, "right")).toBe("429");
  inside.ask(get("right"));
  await vi.waitFor(() => expect(inside.statuses()).toEqual([200, 200]), settled);
  // A wrong password on it, and it is as any other.
  inside.ask(get("wrong"));
  inside.ask(get("right"));
  await vi.waitFor(() => expect(inside.statuses()).toEqual([200, 200, 401, 429]), settled);
  now += 13_000;
  expect(await status(double.port, "right")).toBe("200");
});
