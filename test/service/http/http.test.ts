import { createServer } from "node:http";
import { request as nodeRequest } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ServiceError } from "../../../src/error.ts";
import { createRates } from "../../../src/http/guard/rate-limit.ts";
import { listen } from "../../../src/http/listen.ts";
import type { ErrorBody } from "../../../src/protocol/error.ts";
import { defaultLimits } from "../../../src/protocol/limit.ts";
import type { Route } from "../../../src/protocol/route/route.ts";
import { createRoutes } from "../../../src/protocol/route/table.ts";
import { temporary } from "../../harness/project.ts";
import { createDouble, knownTask, raw } from "../mission/double.ts";
import { fairMs } from "../../harness/pace.ts";

/** The HTTP face by itself, over a real port: who may speak, in what form, and how refusals look. */

type Double = Awaited<ReturnType<typeof createDouble>>;

const routes = Object.entries(createRoutes()) as [string, Route][];
const pathOf = (route: Route) => route.path.replace("{taskID}", knownTask).replace("{checkID}", "tests");
const create = { request: "Run the tests", productPillar: "code" };
const post = (body: unknown, headers: Record<string, string> = {}): RequestInit => ({
  method: "POST",
  headers: { "content-type": "application/json", ...headers },
  body: JSON.stringify(body),
});

let open: Double;
beforeAll(async () => {
  open = await createDouble();
});
afterAll(() => open.close());

const answer = async (path: string, init?: RequestInit, at: Double = open) => {
  const response = await fetch(at.url + path, init);
  const text = await response.text();
  const { status, headers } = response;
  return { status, headers, text, body: (text.startsWith("{") ? JSON.parse(text) : undefined) as ErrorBody };
};

describe("on the wire", () => {
  const line = (head: string, rest = "Host: localhost\r\n", body = "") => `${head}\r\n${rest}\r\n${body}`;
  const json = (body: string, extra = "") =>
    line(
      "POST /task?directory=/p HTTP/1.1",
      `Host: localhost\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n${extra}`,
      body,
    );
  const good = JSON.stringify(create);
  const H = "Host: localhost\r\n";
  // [what, bytes, status, connection closed]. The ones with 2xx are the controls: the same form without the fault.
  const cases: [string, string, number, boolean?][] = [
    ["a plain GET", line("GET /health HTTP/1.1"), 200, false],
    ["HTTP/1.0 with a Host", line("GET /health HTTP/1.0"), 200],
    ["a plain POST", json(good), 202, false],
    [
      "chunked",
      line(
        "POST /task?directory=/p HTTP/1.1",
        `${H}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n`,
        `${good.length.toString(16)}\r\n${good}\r\n0\r\n\r\n`,
      ),
      202,
    ],
    ["headers in capitals", line("GET /health HTTP/1.1", "HOST: LOCALHOST\r\n"), 200],
    ["Host with a port", line("GET /health HTTP/1.1", "Host: 127.0.0.1:9\r\n"), 200],
    ["Host [::1]", line("GET /health HTTP/1.1", "Host: [::1]:7878\r\n"), 200],
    ["an escaped letter in the path", line("GET /h%65alth HTTP/1.1"), 200],
    ["a query with escapes", line("GET /health?directory=%2Fa%20b HTTP/1.1"), 200],
    ["Expect: 100-continue", json(good, "Expect: 100-continue\r\n"), 100],
    ["Origin of our own", line("GET /health HTTP/1.1", `${H}Origin: http://localhost\r\n`), 200],

    ["no Host", line("GET /health HTTP/1.1", ""), 400, true],
    ["an empty Host", line("GET /health HTTP/1.1", "Host: \r\n"), 400, true],
    ["two Hosts", line("GET /health HTTP/1.1", `${H}Host: localhost\r\n`), 400, true],
    ["two different Hosts", line("GET /health HTTP/1.1", `${H}Host: evil.example\r\n`), 400, true],
    ["a foreign Host", line("GET /health HTTP/1.1", "Host: evil.example\r\n"), 403],
    ["a Host that begins like ours", line("GET /health HTTP/1.1", "Host: localhost.evil.example\r\n"), 403],
    ["a Host that ends like ours", line("GET /health HTTP/1.1", "Host: evil-localhost\r\n"), 403],
    ["another loopback address as Host", line("GET /health HTTP/1.1", "Host: 127.0.0.2\r\n"), 403],
    ["an unspecified Host", line("GET /health HTTP/1.1", "Host: 0.0.0.0\r\n"), 403],
    ["userinfo in Host", line("GET /health HTTP/1.1", "Host: localhost@evil.example\r\n"), 400, true],
    ["a path in Host", line("GET /health HTTP/1.1", "Host: localhost/x\r\n"), 400, true],
    ["a list in Host", line("GET /health HTTP/1.1", "Host: localhost, evil.example\r\n"), 400, true],
    [
      "two Authorizations",
      line("GET /health HTTP/1.1", `${H}Authorization: Basic YTpi\r\nAuthorization: Basic YTpi\r\n`),
      400,
      true,
    ],
    [
      "two Origins",
      line("GET /health HTTP/1.1", `${H}Origin: http://localhost\r\norigin: http://localhost\r\n`),
      400,
      true,
    ],
    [
      "two directories",
      line("GET /tasks HTTP/1.1", `${H}x-service-directory: /a\r\nX-Service-Directory: /a\r\n`),
      400,
      true,
    ],
    ["two Content-Types", json(good, "Content-Type: application/json\r\n"), 400, true],
    ["two Content-Lengths, alike", json(good, `Content-Length: ${good.length}\r\n`), 400, true],
    ["two Content-Lengths, different", json(good, "Content-Length: 1\r\n"), 400, true],
    ["two Idempotency-Keys", json(good, "Idempotency-Key: a\r\nIdempotency-Key: b\r\n"), 400, true],
    [
      "two Last-Event-IDs",
      line(`GET /task/${knownTask}/events HTTP/1.1`, `${H}Last-Event-ID: 1\r\nLast-Event-ID: 2\r\n`),
      400,
      true,
    ],
    ["two Transfer-Encodings", json(good, "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400, true],
    ["Content-Length and Transfer-Encoding", json(good, "Transfer-Encoding: chunked\r\n"), 400, true],
    ["Transfer-Encoding of another kind", line("POST /task HTTP/1.1", `${H}Transfer-Encoding: gzip\r\n`), 400, true],
    ["chunked not last", line("POST /task HTTP/1.1", `${H}Transfer-Encoding: chunked, gzip\r\n`), 400, true],
    ["a negative length", line("POST /task HTTP/1.1", `${H}Content-Length: -1\r\n`), 400, true],
    ["a length with a sign", line("POST /task HTTP/1.1", `${H}Content-Length: +5\r\n`), 400, true],
    ["a length in hex", line("POST /task HTTP/1.1", `${H}Content-Length: 0x5\r\n`), 400, true],
    ["a list of lengths", line("POST /task HTTP/1.1", `${H}Content-Length: 5, 5\r\n`), 400, true],
    [
      "a length beyond any number",
      line("POST /task HTTP/1.1", `${H}Content-Length: 99999999999999999999999\r\n`),
      400,
      true,
    ],
    [
      "a bad chunk size",
      line(
        "POST /task?directory=/p HTTP/1.1",
        `${H}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n`,
        "zz\r\n",
      ),
      400,
      true,
    ],
    ["an encoded slash in the path", line(`GET /task%2F${knownTask}/status HTTP/1.1`), 400, true],
    ["an encoded backslash", line("GET /task/a%5Cb/status HTTP/1.1"), 400, true],
    ["an encoded NUL", line("GET /task/a%00b/status HTTP/1.1"), 400, true],
    ["a backslash", line("GET /task\\x/status HTTP/1.1"), 400, true],
    ["dot segments", line("GET /task/../health HTTP/1.1"), 400, true],
    ["a single dot", line("GET /./health HTTP/1.1"), 400, true],
    ["encoded dot segments", line("GET /task/%2e%2e/health HTTP/1.1"), 400, true],
    ["a fragment", line("GET /health#x HTTP/1.1"), 400, true],
    ["half an escape", line("GET /health%4 HTTP/1.1"), 400, true],
    ["an escape that is not UTF-8", line("GET /task/%ff/status HTTP/1.1"), 400, true],
    ["half an escape in the query", line("GET /health?x=%4 HTTP/1.1"), 400],
    ["raw bytes in the path", line("GET /t\xe4sk HTTP/1.1"), 400, true],
    ["absolute form, ours", line("GET http://localhost/health HTTP/1.1"), 400, true],
    ["absolute form, foreign", line("GET http://evil.example/health HTTP/1.1"), 400, true],
    ["absolute form, https", line("GET https://localhost/health HTTP/1.1"), 400, true],
    ["authority form", line("GET localhost:80 HTTP/1.1"), 400, true],
    ["an asterisk", line("GET * HTTP/1.1"), 400, true],
    ["a target without a slash", line("GET health HTTP/1.1"), 400, true],
    ["CONNECT", line("CONNECT localhost:443 HTTP/1.1"), 400, true],
    [
      "Upgrade to a websocket",
      line("GET /health HTTP/1.1", `${H}Connection: Upgrade\r\nUpgrade: websocket\r\n`),
      400,
      true,
    ],
    [
      "Upgrade to HTTP/2",
      line(
        "GET /health HTTP/1.1",
        `${H}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n`,
      ),
      400,
      true,
    ],
    ["the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, true],
    ["HTTP/3.0", line("GET /health HTTP/3.0"), 400, true],
    ["a bare line feed", "GET /health HTTP/1.1\nHost: localhost\n\n", 400, true],
    ["white space before the colon", line("GET /health HTTP/1.1", "Host : localhost\r\n"), 400, true],
    ["a folded header", line("GET /health HTTP/1.1", `${H}X-A: b\r\n c\r\n`), 400, true],
    ["a NUL in a header", line("GET /health HTTP/1.1", `${H}X-A: b\0c\r\n`), 400, true],
    ["a header without a name", line("GET /health HTTP/1.1", `${H}: x\r\n`), 400, true],
    ["headers of 20 KiB", line("GET /health HTTP/1.1", `${H}X-A: ${"a".repeat(20_000)}\r\n`), 431, true],
    ["a target of 20 KiB", line(`GET /health?x=${"a".repeat(20_000)} HTTP/1.1`), 431, true],
    ["TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, true],
    ["no method", " / HTTP/1.1\r\n\r\n", 400, true],
    ["an unknown method", line("BREW /health HTTP/1.1"), 400, true],
    ["another Expect", json(good, "Expect: a-miracle\r\n"), 417, true],
    ["TRACE", line("TRACE /health HTTP/1.1"), 405],
    ["a GET with a body", line("GET /health HTTP/1.1", `${H}Content-Length: 2\r\n`, "{}"), 400],
    [
      "a GET with a chunked body",
      line("GET /health HTTP/1.1", `${H}Transfer-Encoding: chunked\r\n`, "2\r\n{}\r\n0\r\n\r\n"),
      400,
    ],
    ["OPTIONS without an origin", line("OPTIONS /task HTTP/1.1"), 403],
    ["OPTIONS *", line("OPTIONS * HTTP/1.1"), 403],
  ];
  test.concurrent.each(cases)("%s", async (_name, bytes, status, closed) => {
    const got = await raw(open.port, Buffer.from(bytes, "latin1"), closed === true ? 2000 : 150, 10_000);
    expect(got.text.split("\r\n")[0]).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    if (closed !== undefined) expect(got.closed).toBe(closed);
    if (status >= 400) {
      expect(got.text.match(/^HTTP\/1\.1 /gm)).toHaveLength(1);
      const body = JSON.parse(got.text.slice(got.text.indexOf("\r\n\r\n") + 4)) as ErrorBody;
      expect(body).toMatchObject({ status, requestID: expect.stringMatching(/^req_/), retryable: false });
      expect(body.message).toMatch(/^(?:\S+: )?Expected .+ got .+$/s);
      expect(got.text).toMatch(/x-content-type-options: nosniff/i);
    }
  });

  test("there are enough cases, refused and not", () => {
    expect(cases.length).toBeGreaterThanOrEqual(60);
    expect(cases.filter(([, , status]) => status < 400).length).toBeGreaterThanOrEqual(10);
  });

  test("what is smuggled behind a refused request is not read as another", async () => {
    const second = line("GET /health HTTP/1.1");
    const both = await raw(open.port, line("GET /health HTTP/1.1") + second, 200, 10_000);
    expect(both.text.match(/HTTP\/1\.1 200 /g)).toHaveLength(2);
    const behind = await raw(open.port, line("GET /health HTTP/1.1", `${H}Host: localhost\r\n`) + second, 2000);
    expect(behind).toMatchObject({ closed: true, text: expect.stringMatching(/^HTTP\/1\.1 400 /) });
    expect(behind.text).not.toContain("200 OK");
  });

  test("random damage to good requests never gives a 5xx, and the service lives on", { timeout: 20_000 }, async () => {
    const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 1_000_000);
    let state = seed;
    const random = (below: number) => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
      return state % below;
    };
    const models = [
      json(good),
      line(`GET /task/${knownTask}/status HTTP/1.1`),
      line("GET /tasks?directory=/p&limit=3 HTTP/1.1"),
    ];
    const statuses = new Set<string>();
    const one = async () => {
      const bytes = Buffer.from(models[random(models.length)] ?? "", "latin1");
      for (let count = 1 + random(3); count > 0; count -= 1) bytes[random(bytes.length)] = random(256);
      const { text } = await raw(open.port, Buffer.concat([bytes, Buffer.from("\r\n\r\n")]), 40, 250);
      for (const found of text.matchAll(/^HTTP\/1\.1 (\d{3})/gm)) {
        statuses.add(found[1] ?? "");
        expect(found[1], `TEST_SEED=${seed}: ${JSON.stringify(bytes.toString("latin1"))}`).not.toMatch(/^5/);
      }
    };
    for (let round = 0; round < 8; round += 1) await Promise.all(Array.from({ length: 50 }, one));
    expect(statuses.size, `TEST_SEED=${seed}`).toBeGreaterThan(3);
    expect((await answer("/health")).status).toBe(200);
  });
});

describe("authentication", () => {
  const right = `Basic ${btoa("service:correct horses")}`;
  const forms: [string, string | undefined, boolean][] = [
    ["right", right, true],
    ["right, scheme in small letters", right.replace("Basic", "basic"), true],
    ["none", undefined, false],
    ["empty", "", false],
    ["wrong password", `Basic ${btoa("service:correct hors")}`, false],
    ["wrong user", `Basic ${btoa("admin:correct horses")}`, false],
    ["empty password", `Basic ${btoa("service:")}`, false],
    ["password with a tail", `Basic ${btoa("service:correct horses\0")}`, false],
    ["no colon", `Basic ${btoa("correct horses")}`, false],
    ["not base64", "Basic service:correct horses", false],
    ["white space inside", right.replace("Basic ", "Basic  "), false],
    ["without padding", right.replace(/=+$/, ""), false],
    ["Bearer", right.replace("Basic", "Bearer"), false],
    ["Digest", 'Digest username="service"', false],
    ["not canonical: spare bits set", right.replace(/.==$/, "x=="), false],
  ];
  let locked: Double;
  /** Far apart in time, so that the wrong ones are not too many. */
  let now = 0;
  beforeAll(async () => {
    locked = await createDouble({
      auth: { username: "service", password: "correct horses" },
      now: () => (now += 60_000),
    });
  });
  afterAll(() => locked.close());

  const send = (method: string, path: string, header: string | undefined) =>
    new Promise<{ status: number; challenge: string | undefined }>((resolve, reject) => {
      const headers = header === undefined ? {} : { authorization: header };
      const sent = nodeRequest(locked.url + path, { method, headers, agent: false }, (response) => {
        resolve({ status: response.statusCode ?? 0, challenge: response.headers["www-authenticate"] });
        response.destroy();
      });
      sent.on("error", reject);
      sent.end();
    });

  test.each(routes)("%s demands it in every form", async (_id, route) => {
    for (const [name, header, good] of forms) {
      const { status, challenge } = await send(route.method, pathOf(route), header);
      if (good) expect(status, name).not.toBe(401);
      else expect({ name, status, challenge }).toEqual({ name, status: 401, challenge: 'Basic realm="service"' });
    }
  });

  test("also where there is no route, a wrong method, and the page's script", async () => {
    for (const path of ["/", "/nope", "/doc/reference.js", "/task/x/y/z"])
      expect((await send("GET", path, undefined)).status).toBe(401);
    expect((await send("PUT", "/task", undefined)).status).toBe(401);
    expect((await send("HEAD", "/health", undefined)).status).toBe(401);
    expect((await send("GET", "/nope", right)).status).toBe(404);
    expect((await send("GET", "/doc/reference.js", right)).status).toBe(200);
  });

  test("a refusal says nothing about what was wrong with the credentials", async () => {
    const of = async (header: string) =>
      (await answer("/health", { headers: { authorization: header } }, locked)).body.message;
    expect(await of(`Basic ${btoa("service:x")}`)).toBe(await of(`Basic ${btoa("nobody:correct horses")}`));
  });

  test("without a password everybody is let in", async () => {
    expect((await answer("/health")).status).toBe(200);
    expect((await answer("/health", { headers: { authorization: "Basic eDp5" } })).status).toBe(200);
  });

  test("a user name and a password beyond ASCII", async () => {
    await using double = await createDouble({ auth: { username: "jörg", password: "pässwörd:ü" } });
    const encoded = Buffer.from("jörg:pässwörd:ü").toString("base64");
    expect((await answer("/health", { headers: { authorization: `Basic ${encoded}` } }, double)).status).toBe(200);
    expect(
      (await answer("/health", { headers: { authorization: `Basic ${btoa("jörg:pässwörd:ü")}` } }, double)).status,
    ).toBe(401);
  });
});

describe("hosts and origins", () => {
  const ask = (at: Double, headers: Record<string, string>, path = "/health", method = "GET") =>
    new Promise<{ status: number; headers: Record<string, unknown> }>((resolve, reject) => {
      const sent = nodeRequest(at.url + path, { method, headers, agent: false }, (response) => {
        response.resume();
        resolve({ status: response.statusCode ?? 0, headers: response.headers });
      });
      sent.on("error", reject);
      sent.end();
    });

  test("only our own origin, whatever the method", async () => {
    const own = `http://127.0.0.1:${open.port}`;
    for (const method of ["GET", "POST", "DELETE"]) {
      expect((await ask(open, { origin: own }, "/health", method)).status).toBe(method === "GET" ? 200 : 405);
      for (const origin of [
        "null",
        "http://127.0.0.1:1",
        "http://localhost",
        "https://evil.example",
        "file://",
        `${own}.evil.example`,
      ])
        expect({ method, origin, status: (await ask(open, { origin }, "/health", method)).status }).toEqual({
          method,
          origin,
          status: 403,
        });
    }
  });

  test("Sec-Fetch-Site; a link from elsewhere opens the page and nothing else", async () => {
    for (const [site, status] of [
      ["same-origin", 200],
      ["none", 200],
      ["same-site", 403],
      ["cross-site", 403],
    ] as const)
      expect((await ask(open, { "sec-fetch-site": site })).status).toBe(status);
    const link = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" };
    expect((await ask(open, link, "/doc")).status).toBe(200);
    expect((await ask(open, link, "/health")).status).toBe(403);
    expect((await ask(open, { ...link, "sec-fetch-dest": "iframe" }, "/doc")).status).toBe(403);
    expect((await ask(open, link, "/doc", "POST")).status).toBe(403);
  });

  test("an allowed origin gets CORS headers and its preflight; nobody else ever does", async () => {
    await using double = await createDouble({
      allowedOrigins: ["https://ui.example"],
      auth: { username: "service", password: "p" },
    });
    const ui = { origin: "https://ui.example", "sec-fetch-site": "cross-site" };
    const preflight = await ask(double, { ...ui, "access-control-request-method": "POST" }, "/task", "OPTIONS");
    expect(preflight).toMatchObject({
      status: 204,
      headers: {
        "access-control-allow-origin": "https://ui.example",
        "access-control-allow-methods": expect.stringContaining("POST"),
        "access-control-allow-headers": expect.stringContaining("authorization"),
        vary: "origin",
      },
    });
    const authorization = `Basic ${btoa("service:p")}`;
    expect(await ask(double, { ...ui, authorization })).toMatchObject({
      status: 200,
      headers: { "access-control-allow-origin": "https://ui.example" },
    });
    expect(await ask(double, ui)).toMatchObject({
      status: 401,
      headers: { "access-control-allow-origin": "https://ui.example" },
    });
    expect((await ask(double, ui, "/task", "OPTIONS")).status).toBe(403);
    const foreign = await ask(
      double,
      { origin: "https://other.example", "access-control-request-method": "POST" },
      "/task",
      "OPTIONS",
    );
    expect(foreign.status).toBe(403);
    const own = await ask(double, { authorization });
    for (const { headers } of [foreign, own])
      expect(Object.keys(headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
  });

  test("with a password any Host, unless a list is given", async () => {
    const auth = { username: "service", password: "p" };
    const authorization = `Basic ${btoa("service:p")}`;
    await using any = await createDouble({ auth });
    expect((await ask(any, { authorization, host: "build.example:80" })).status).toBe(200);
    await using listed = await createDouble({ auth, allowedHosts: ["build.example"] });
    expect((await ask(listed, { authorization, host: "build.example:80" })).status).toBe(200);
    expect((await ask(listed, { authorization, host: "other.example" })).status).toBe(403);
    await using guarded = await createDouble({ allowedHosts: ["build.example:81"] });
    expect((await ask(guarded, { host: "BUILD.example:81" })).status).toBe(200);
    expect((await ask(guarded, { host: "build.example:80" })).status).toBe(403);
  });

  test("the guards come in their order: the earlier fault is the one that is told", async () => {
    await using double = await createDouble({ auth: { username: "service", password: "p" } });
    const status = async (headers: Record<string, string>, path: string) => (await ask(double, headers, path)).status;
    expect(await status({ host: "a b", origin: "null" }, "/task/%2F")).toBe(400);
    expect(await status({ origin: "null" }, "/task/%2F")).toBe(403);
    expect(await status({}, "/task/%2F")).toBe(400);
    expect(await status({}, "/nope")).toBe(401);
    expect(await status({ authorization: `Basic ${btoa("service:p")}` }, "/nope")).toBe(404);
  });
});

describe("rates", () => {
  test("too many failed authentications shut an address out for a while, also with the right password", async () => {
    let now = 0;
    const auth = { username: "service", password: "p" };
    await using double = await createDouble({ auth, loopback: false, now: () => now });
    const status = async (password: string) =>
      (await answer("/health", { headers: { authorization: `Basic ${btoa(`service:${password}`)}` } }, double)).status;
    expect(await status("p")).toBe(200);
    for (let count = 0; count < 10; count += 1) expect(await status("x")).toBe(401);
    expect(await status("p")).toBe(429);
    now += 7_000;
    expect(await status("p")).toBe(200);
  });

  test("a burst of requests, then as many as come back per second", () => {
    let now = 0;
    const rates = createRates({ ...defaultLimits, requestsPerSecond: 2, requestsBurst: 3 }, () => now);
    const refused = () => {
      try {
        rates.request("a");
        return undefined;
      } catch (error) {
        return (error as ServiceError).headers["retry-after"];
      }
    };
    expect([refused(), refused(), refused(), refused()]).toEqual([undefined, undefined, undefined, "1"]);
    rates.request("b");
    now += 500;
    expect([refused(), refused()]).toEqual([undefined, "1"]);
    now -= 86_400_000;
    expect(refused()).toBe("1");
    now += 1000;
    expect(refused()).toBeUndefined();
  });

  test("new Tasks have a rate of their own", async () => {
    await using double = await createDouble({ loopback: false, now: () => 0 });
    const statuses = [];
    for (let count = 0; count < 31; count += 1)
      statuses.push((await answer("/task?directory=/p", post(create), double)).status);
    expect(statuses.filter((status) => status === 202)).toHaveLength(30);
    const { status, headers, body } = await answer("/task?directory=/p", post(create), double);
    expect([status, headers.get("retry-after"), body.code, body.retryable]).toEqual([429, "1", "rate_limited", true]);
    expect((await answer("/health", undefined, double)).status).toBe(200);
  });
});

describe("answers", () => {
  test("every answer has its own request id and the fixed headers", async () => {
    const seen = new Set<string>();
    for (const [path, init] of [
      ["/health", undefined],
      ["/nope", undefined],
      ["/task", { method: "PUT" }],
      ["/task?directory=/p", post(create)],
      ["/task?directory=/p", post({})],
      ["/doc", undefined],
      ["/metrics", undefined],
      [`/task/${knownTask}/events?format=json`, undefined],
    ] as [string, RequestInit | undefined][]) {
      const { headers, status, body } = await answer(path, init);
      expect(Object.fromEntries(headers)).toMatchObject({
        "x-request-id": expect.stringMatching(/^req_[0-9a-z-]+$/),
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
        "referrer-policy": "no-referrer",
      });
      if (status >= 400) expect(body.requestID).toBe(headers.get("x-request-id"));
      seen.add(headers.get("x-request-id") ?? "");
    }
    expect(seen.size).toBe(8);
  });

  test("an unknown route, a wrong method with Allow", async () => {
    expect((await answer("/nope")).body).toMatchObject({ code: "route_not_found", status: 404 });
    const wrong = await answer(`/task/${knownTask}`, { method: "PUT" });
    expect([wrong.status, wrong.headers.get("allow"), wrong.body.code]).toEqual([
      405,
      "GET, HEAD, PATCH, DELETE",
      "method_not_allowed",
    ]);
    expect((await answer("/health", { method: "DELETE" })).headers.get("allow")).toBe("GET, HEAD");
    expect((await answer("/health/", undefined)).status).toBe(404);
  });

  test("HEAD tells what GET would, without a body, and starts nothing", async () => {
    for (const path of ["/health", `/task/${knownTask}/status`, "/tasks?directory=/p", "/openapi.json", "/doc"]) {
      const get = await answer(path);
      const head = await answer(path, { method: "HEAD" });
      expect({
        path,
        status: head.status,
        type: head.headers.get("content-type"),
        length: head.headers.get("content-length"),
      }).toEqual({
        path,
        status: 200,
        type: get.headers.get("content-type"),
        length: String(Buffer.byteLength(get.text)),
      });
      expect(head.text).toBe("");
    }
    expect((await answer(`/task/${knownTask}/events`, { method: "HEAD" })).headers.get("content-type")).toMatch(
      /^text\/event-stream/,
    );
    expect(open.app.openStreams()).toBe(0);
    expect((await answer(`/task/${knownTask}/project-archive?directory=/p`, { method: "HEAD" })).status).toBe(200);
    expect((await answer("/task/task_x/status", { method: "HEAD" })).status).toBe(404);
  });

  test("a Task that cannot be, one that is not, one of another's: the same words", async () => {
    const ids = [
      "x",
      "task_x",
      `task_${"0".repeat(26)}`,
      knownTask.toUpperCase(),
      `${knownTask}0`,
      "%20",
      "task_%00".replace("%00", "%01"),
    ];
    const bodies = await Promise.all(ids.map(async (id) => (await answer(`/task/${id}/status`)).body));
    for (const body of bodies)
      expect(body).toMatchObject({ status: 404, code: "task_not_found", message: bodies[0]?.message });
    expect((await answer(`/task/${knownTask}/status`)).status).toBe(200);
  });

  test("a bug is a 500 that tells its id and nothing of itself; a refusal keeps what it says", async () => {
    const lines: object[] = [];
    const log = { debug() {}, info() {}, warn() {}, error: (data: object) => void lines.push(data) };
    await using double = await createDouble({ log });
    double.failWith(new TypeError("secret /home/me/x.ts"));
    const bug = await answer(`/task/${knownTask}/status`, undefined, double);
    expect(bug.body).toEqual({
      message: expect.not.stringContaining("secret"),
      code: "internal",
      status: 500,
      requestID: bug.headers.get("x-request-id"),
      retryable: false,
    });
    expect(lines).toMatchObject([{ requestID: bug.body.requestID, err: expect.any(TypeError) }]);
    double.failWith(
      new ServiceError("queue_full", "Expected fewer than 3 waiting Tasks, got 3.", {
        details: { waiting: 3 },
        headers: { "retry-after": "9" },
      }),
    );
    const full = await answer("/task?directory=/p", post(create), double);
    expect([full.status, full.headers.get("retry-after")]).toEqual([429, "9"]);
    expect(full.body).toMatchObject({ code: "queue_full", retryable: true, details: { waiting: 3 } });
    expect(lines).toHaveLength(1);
  });

  test("a list's next page is told only when there is one, with the filters it was asked with", async () => {
    const page = await answer("/tasks?directory=/p&limit=2&search=a%20b&metadata.team=x");
    expect(JSON.parse(page.text)).toHaveLength(2);
    expect(page.headers.get("link")).toBe(
      `</tasks?directory=%2Fp&limit=2&search=a+b&metadata.team=x&cursorUpdated=999&cursorTaskID=${knownTask}>; rel="next"`,
    );
    const next = /<(.*)>/.exec(page.headers.get("link") ?? "")?.[1] ?? "";
    const [first] = JSON.parse((await answer(next)).text) as { query: object }[];
    expect(first?.query).toEqual({
      directory: "/p",
      limit: 3,
      search: "a b",
      metadata: { team: "x" },
      cursor: { updated: 999, taskID: knownTask },
    });
  });

  test("a board that has not changed is a 304", async () => {
    const first = await answer(`/task/${knownTask}/board`);
    const etag = first.headers.get("etag") ?? "";
    expect(etag).toMatch(/^W\/".+"$/);
    for (const tag of [etag, etag.replace("W/", ""), `"other", ${etag}`, "*"]) {
      const again = await answer(`/task/${knownTask}/board`, { headers: { "if-none-match": tag } });
      expect([again.status, again.text, again.headers.get("etag")]).toEqual([304, "", etag]);
    }
    expect((await answer(`/task/${knownTask}/board`, { headers: { "if-none-match": '"other"' } })).status).toBe(200);
  });

  test("while it stops, all but /health is refused with 503", async () => {
    let stopping = false;
    await using double = await createDouble({ draining: () => stopping });
    expect((await answer("/tasks?directory=/p", undefined, double)).status).toBe(200);
    stopping = true;
    const refused = await answer("/tasks?directory=/p", undefined, double);
    expect([refused.status, refused.body.code, refused.headers.get("retry-after")]).toEqual([503, "draining", "2"]);
    expect((await answer("/health", undefined, double)).status).toBe(200);
  });
});

describe("the directory", () => {
  const refusal = async (path: string, header?: string) => {
    const { status, body } = await answer(
      path,
      header === undefined ? undefined : { headers: { "x-service-directory": header } },
    );
    return status === 200 ? 200 : body.code;
  };
  test("by query or header, alike when both; demanded where needed, ignored elsewhere", async () => {
    expect(await refusal("/tasks")).toBe("directory_required");
    expect((await answer("/tasks")).body.message).toBe(
      "Give the project directory: `?directory=/abs/path` or header `x-service-directory`.",
    );
    expect(await refusal("/tasks?directory=/a")).toBe(200);
    expect(await refusal("/tasks", "/a")).toBe(200);
    expect(await refusal("/tasks?directory=%2Fa", "/a")).toBe(200);
    expect(await refusal("/tasks?directory=/a", "/b")).toBe("directory_invalid");
    expect(await refusal("/tasks?directory=a/b")).toBe("directory_invalid");
    expect(await refusal("/tasks?directory=")).toBe("directory_invalid");
    expect(await refusal("/tasks?directory=/a%00b")).toBe("directory_invalid");
    expect(await refusal("/tasks?directory=/a&directory=/a")).toBe("invalid_request");
    expect(await refusal("/health?directory=a", "b")).toBe(200);
    expect(await refusal(`/task/${knownTask}/status?directory=a`)).toBe(200);
  });

  test("a header in UTF-8 is the path it spells", async () => {
    await using double = await createDouble();
    const { text } = await raw(
      double.port,
      Buffer.from(
        "GET /tasks?limit=1 HTTP/1.1\r\nHost: localhost\r\nx-service-directory: /gr\u00fc\u00df\r\n\r\n",
        "utf8",
      ),
      150,
    );
    expect(Buffer.from(text, "latin1").toString("utf8")).toContain('"directory":"/grüß"');
  });
});

describe("Idempotency-Key", () => {
  const path = "/task?directory=/p";
  test("the same key and body give the first answer again, another body does not", async () => {
    await using double = await createDouble();
    const first = await answer(path, post(create, { "idempotency-key": "k" }), double);
    const again = await answer(path, post(create, { "idempotency-key": "k" }), double);
    expect([again.status, again.text, again.headers.get("idempotent-replayed")]).toEqual([202, first.text, "true"]);
    expect(first.headers.get("idempotent-replayed")).toBeNull();
    const other = await answer(path, post({ ...create, title: "x" }, { "idempotency-key": "k" }), double);
    expect([other.status, other.body.code]).toEqual([409, "idempotency_key_reused"]);
    expect(double.writes).toHaveLength(1);
    for (const [there, body] of [
      ["/task?directory=/q", create],
      [`/task/${knownTask}/cancel?directory=/p`, {}],
    ] as const)
      expect(
        (await answer(there, post(body, { "idempotency-key": "k" }), double)).headers.get("idempotent-replayed"),
      ).toBeNull();
    expect(double.writes).toHaveLength(3);
  });

  test("the folder and the path count, not how they are spelled", async () => {
    await using double = await createDouble();
    const cancel = (task: string) => `/task/${task}/cancel`;
    const first = await answer(`${cancel(knownTask)}?directory=/p`, post({}, { "idempotency-key": "k" }), double);
    const escaped = `%${knownTask.charCodeAt(0).toString(16)}${knownTask.slice(1)}`;
    const replays = [];
    for (const [task, directory] of [
      [knownTask, "/p/"],
      [knownTask, "/p/."],
      [knownTask, "/q/../p"],
      [escaped, "/p"],
      [knownTask, "/p/q"],
    ] as const) {
      const query = `?directory=${encodeURIComponent(directory)}`;
      const { headers } = await answer(cancel(task) + query, post({}, { "idempotency-key": "k" }), double);
      replays.push(headers.get("idempotent-replayed"));
    }
    expect([first.status, replays]).toEqual([202, ["true", "true", "true", "true", null]]);
  });

  test("while the first is on its way the second waits its turn", async () => {
    await using double = await createDouble();
    const gate = Promise.withResolvers<void>();
    double.hold(gate.promise);
    const first = answer(path, post(create, { "idempotency-key": "k" }), double);
    await new Promise((resolve) => setTimeout(resolve, 50));
    const second = await answer(path, post(create, { "idempotency-key": "k" }), double);
    expect([second.status, second.body.code, second.body.retryable]).toEqual([409, "idempotency_in_progress", true]);
    const other = await answer(path, post({ ...create, title: "x" }, { "idempotency-key": "k" }), double);
    expect(other.body.code).toBe("idempotency_key_reused");
    gate.resolve();
    expect((await first).status).toBe(202);
    const third = await answer(path, post(create, { "idempotency-key": "k" }), double);
    expect([third.status, third.headers.get("idempotent-replayed")]).toEqual([202, "true"]);
  });

  test("a refusal is not kept: the key is free for the corrected request", async () => {
    await using double = await createDouble();
    expect((await answer(path, post({}, { "idempotency-key": "k" }), double)).status).toBe(400);
    double.failWith(new ServiceError("queue_full", "Expected fewer, got more."));
    expect((await answer(path, post(create, { "idempotency-key": "k" }), double)).status).toBe(429);
    double.failWith(undefined);
    expect((await answer(path, post(create, { "idempotency-key": "k" }), double)).status).toBe(202);
  });

  test.each([["a b"], ["x".repeat(256)], ["ü"]])("a key that is none: %s", async (key) => {
    const { status, body } = await answer(path, post(create, { "idempotency-key": key }));
    expect([status, body.code]).toEqual([400, "invalid_request"]);
  });
});

describe("the server", () => {
  test("a port in use, an address that is not ours: one line with the way out", async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const port = (other.address() as { port: number }).port;
    await expect(listen(open.app, { host: "127.0.0.1", port })).rejects.toMatchObject({
      exitCode: 69,
      message: `Port ${port} is used by another program. Use --port, or stop that program.`,
    });
    await expect(listen(open.app, { host: "192.0.2.1", port: 0 })).rejects.toMatchObject({ exitCode: 69 });
    await new Promise((resolve) => other.close(resolve));
  });

  test("a socket is for its owner, replaces a dead one and not a living one", async () => {
    using folder = temporary("sortie-http-");
    const socket = join(folder.path, "s");
    const over = (path: string) =>
      new Promise<number>((resolve, reject) => {
        nodeRequest({ socketPath: socket, path, headers: { host: "localhost" }, agent: false }, (response) => {
          response.resume();
          resolve(response.statusCode ?? 0);
        })
          .on("error", reject)
          .end();
      });
    const { statSync } = await import("node:fs");
    const server = await listen(open.app, { host: "127.0.0.1", port: 0, socket });
    expect(await over("/health")).toBe(200);
    expect((statSync(socket).mode & 0o777).toString(8)).toBe("600");
    await expect(listen(open.app, { host: "", port: 0, socket })).rejects.toMatchObject({ exitCode: 69 });
    await server.close();
    const { spawnSync } = await import("node:child_process");
    // A process that dies by SIGKILL leaves its socket behind.
    spawnSync(process.execPath, [
      "-e",
      `require("net").createServer().listen(${JSON.stringify(socket)}, () => process.kill(process.pid, "SIGKILL"))`,
    ]);
    expect(statSync(socket).isSocket()).toBe(true);
    const second = await listen(open.app, { host: "127.0.0.1", port: 0, socket });
    expect(await over("/health")).toBe(200);
    await second.close();
  });

  test("closing ends streams with a time to come back, and waits for nothing else", async () => {
    const double = await createDouble();
    const stream = raw(double.port, `GET /task/${knownTask}/events HTTP/1.1\r\nHost: localhost\r\n\r\n`, 5000);
    const idle = raw(double.port, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", 5000);
    await new Promise((resolve) => setTimeout(resolve, 200));
    const began = performance.now();
    await double.close();
    expect(performance.now() - began).toBeLessThan(fairMs(1500));
    const { text, closed } = await stream;
    expect(closed).toBe(true);
    expect(text.match(/retry: 2000/g)).toHaveLength(2);
    expect((await idle).closed).toBe(true);
  });

  test("a connection serves a thousand requests and is closed in good order", async () => {
    const { text } = await raw(open.port, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1001), 2000);
    expect(text.match(/HTTP\/1\.1 200 OK/g)).toHaveLength(1000);
    expect(text).not.toMatch(/HTTP\/1\.1 5/);
  });
});
