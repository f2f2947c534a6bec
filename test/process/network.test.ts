import { createServer, request } from "node:http";
import { type AddressInfo, createServer as createRaw } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { allowListOf } from "../../src/process/network/allow-list.ts";
import { createProxies, type Proxies } from "../../src/process/network/proxy.ts";
import {
  bubblewrapSandbox,
  findProgram,
  processGroupSandbox,
  type Sandbox,
} from "../../src/process/sandbox/sandbox.ts";
import { tryList } from "../../src/process/sandbox/self-test.ts";
import { temporary } from "../harness/project.ts";

/** The proxy of a list of hosts, and which addresses an entry leads to. */

const inside = ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fd00::1"];
const outside = ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"];
const leads = (list: string[], host: string, port: number) => {
  const judge = allowListOf(list)(host, port);
  return judge === undefined ? "no" : `${outside.every(judge) ? "out" : ""}${inside.some(judge) ? "in" : ""}`;
};

test.each([
  [["example.org"], "example.org", 443, "out"],
  [["example.org"], "EXAMPLE.org.", 80, "out"],
  [["example.org"], "example.org", 22, "no"],
  [["example.org"], "www.example.org", 443, "no"],
  [["example.org"], "notexample.org", 443, "no"],
  [["example.org"], "example.org.evil.test", 443, "no"],
  [["*.example.org"], "www.example.org", 443, "out"],
  [["*.example.org"], "a.b.example.org", 443, "out"],
  [["*.example.org"], "example.org", 443, "no"],
  [["*.example.org"], "evilexample.org", 443, "no"],
  [["*.example.org:8443"], "www.example.org", 8443, "out"],
  [["registry.local:4873"], "registry.local", 4873, "outin"],
  [["registry.local:4873"], "registry.local", 443, "no"],
  [["10.1.2.3"], "10.1.2.3", 80, "outin"],
  [["[fd00::1]:4873"], "fd00::1", 4873, "outin"],
  [["[fd00::1]:4873"], "fd00::2", 4873, "no"],
])("%j leads to %s:%i: %s", (list, host, port, expected) => {
  expect(leads(list, host, port)).toBe(expected);
});

const seen: string[] = [];
const web = createServer((asked, response) => {
  seen.push(`${asked.method} ${asked.url} ${asked.headers.host} ${asked.headers["proxy-authorization"] ?? ""}`);
  asked.pipe(response);
});
let proxies: Proxies;
let port: number;
beforeAll(async () => {
  await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", resolve));
  ({ port } = web.address() as AddressInfo);
  proxies = createProxies({
    log: silent,
    resolve: async (host) => {
      if (host === "gone.test") throw new Error("ENOTFOUND");
      return ["127.0.0.1"];
    },
  });
});
afterAll(() => {
  proxies.close();
  web.close();
});

const ask = (list: string[], path: string, { method = "POST", body = "", headers = {} } = {}) =>
  new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
    const asking = request({ socketPath: proxies.socketFor(list), path, method, headers }, (answer) => {
      let text = "";
      answer.on("data", (chunk: Buffer) => (text += chunk.toString()));
      answer.on("end", () => resolve({ status: answer.statusCode, text }));
      answer.on("error", reject);
    });
    asking.on("connect", (answer, socket) => {
      socket.destroy();
      resolve({ status: answer.statusCode, text: "" });
    });
    asking.on("error", reject);
    asking.end(body);
  });

test("a request is passed on with its body, for the host that was judged", async () => {
  const headers = { host: "other.test", "proxy-authorization": "Basic x" };
  expect(await ask([`a.test:${port}`], `http://a.test:${port}/x?y`, { body: "sent", headers })).toEqual({
    status: 200,
    text: "sent",
  });
  expect(seen.at(-1)).toBe(`POST /x?y a.test:${port} `);
});

test("a name that leads inside is refused unless its port is named, and so is what is not named", async () => {
  const count = seen.length;
  expect(await ask(["a.test"], "http://a.test/")).toMatchObject({
    status: 403,
    text: expect.stringContaining("no public address") as string,
  });
  expect(await ask(["a.test"], "a.test:443", { method: "CONNECT" })).toMatchObject({ status: 403 });
  expect(await ask(["*.a.test"], "b.a.test:443", { method: "CONNECT" })).toMatchObject({ status: 403 });
  expect(await ask([`a.test:${port}`], `b.test:${port}`, { method: "CONNECT" })).toMatchObject({ status: 403 });
  expect(await ask([`a.test:${port}`], `a.test:${port}`, { method: "CONNECT" })).toMatchObject({ status: 200 });
  expect(await ask(["gone.test"], "http://gone.test/")).toMatchObject({ status: 502 });
  expect(await ask(["gone.test"], "/relative")).toMatchObject({ status: 400 });
  expect(await ask(["gone.test"], "nonsense", { method: "CONNECT" })).toMatchObject({ status: 400 });
  expect(seen.length).toBe(count);
});

/** What comes through of an answer that a server writes as it is, before it hangs up. */
const through = async (answer: string): Promise<{ status: number | undefined; text: string } | "broken off"> => {
  const server = createRaw((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.end(Buffer.from(answer, "latin1")));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port: raw } = server.address() as AddressInfo;
  try {
    return await ask([`a.test:${raw}`], `http://a.test:${raw}/`);
  } catch {
    return "broken off";
  } finally {
    server.close();
  }
};

const refused = (why: string) => ({ status: 502, text: expect.stringContaining(why) as string });

test.each([
  ["a usual one", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", { status: 200, text: "ok" }],
  ["one with odd headers", "HTTP/1.1 200 OK\r\nX-\x7f: \x01\r\n\r\nok", refused("Sortie: ")],
  ["one in Latin 1", "HTTP/1.1 200 OK\r\nX-A: \xe9\r\n__proto__: x\r\n\r\nok", { status: 200, text: "ok" }],
  ["one after another", "HTTP/1.1 103 X\r\n\r\nHTTP/1.1 200 OK\r\n\r\nok", { status: 200, text: "ok" }],
  ["a status below 100", "HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n", refused("got 99")],
  ["a status of 0", "HTTP/1.1 000 X\r\nContent-Length: 0\r\n\r\n", refused("got 0")],
  ["a status above 599", "HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n", refused("got 999")],
  ["another protocol", "HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", refused("protocol")],
  ["none", "", refused("")],
  ["one that is cut", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", "broken off"],
  ["a part that is cut", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nok", "broken off"],
])("of the answers that a host may give, %s is passed on or refused", async (_, answer, expected) => {
  expect(await through(answer)).toEqual(expected);
});

test("whether a list can be kept to is tried from inside: a network that leads on, or no way out, is found", async () => {
  using folder = temporary();
  const path = process.env["PATH"] ?? "";
  const machine = { path, home: folder.path, paths: [], dataDir: join(folder.path, "data") };
  const sandbox = bubblewrapSandbox(machine, false, findProgram("bwrap", path) ?? "");
  expect(await tryList(sandbox, path)).toMatchObject({ ok: true });
  const changed = (network: boolean): Sandbox => ({
    ...sandbox,
    wrap: (asked) => sandbox.wrap?.({ ...asked, network }) ?? [],
  });
  expect(await tryList(changed(false), path)).toMatchObject({ ok: false, why: "it lets through: no-proxy" });
  const open = await tryList(changed(true), path);
  expect(open).toMatchObject({ ok: false, why: expect.stringMatching(/no-proxy.*network/) as string });
  expect(await tryList(processGroupSandbox, path)).toMatchObject({ ok: false });
});
