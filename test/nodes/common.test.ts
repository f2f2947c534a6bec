import { mkdtempSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type MockProvider, type MockTurn, startMockProvider } from "../harness/double/mock-provider.ts";
import { countSkipped, postgresURL } from "../harness/postgres.ts";
import { until } from "../harness/project.ts";
import { startService, type TestService } from "../harness/service.ts";
import { place } from "./stage.ts";

/**
 * What holds for all nodes as for one: who guesses passwords, which sessions are over, which provider is left alone.
 */

const right = { username: "service", password: "correct horses" };

describe.skipIf(postgresURL === undefined)("nodes in common", () => {
  let here: Awaited<ReturnType<typeof place>>;
  let provider: MockProvider;
  let answer: MockTurn | (() => MockTurn) = { text: "Done." };
  const nodes: TestService[] = [];
  beforeAll(async () => {
    here = await place();
    provider = await startMockProvider((): MockTurn => (typeof answer === "function" ? answer() : answer));
    for (const name of ["a", "b", "c"]) nodes.push(await start(name));
  }, 60_000);
  afterAll(async () => {
    for (const node of nodes) await node.close();
    await provider.close();
    await here[Symbol.asyncDispose]();
  });
  const start = (name: string) => {
    const config = join(here.path, `${name}.jsonc`);
    const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" };
    writeFileSync(config, JSON.stringify({ providers: { mock }, limits: { breakerFailures: 4 } }));
    return startService(join(here.path, name), {
      ...here.env(name),
      SERVICE_CONFIG: config,
      SERVICE_MODEL: "mock/test-1",
      SERVICE_SERVER_PASSWORD: right.password,
    });
  };
  const [a, b] = [() => nodes[0] as TestService, () => nodes[1] as TestService];
  const basic = (password: string) => ({ authorization: `Basic ${btoa(`${right.username}:${password}`)}` });
  /** Each on a connection of its own, as whoever guesses has them. */
  const send = (
    { url }: { url: string },
    method: string,
    path: string,
    headers: Record<string, string> = {},
    body = "",
  ): Promise<{ status: number; text: string; cookies: string[] }> =>
    new Promise((resolve, reject) => {
      const sent = request(`${url}${path}`, { method, agent: false, headers }, (response) => {
        let text = "";
        response.on("data", (piece) => (text += String(piece)));
        response.on("end", () =>
          resolve({ status: response.statusCode ?? 0, text, cookies: response.headers["set-cookie"] ?? [] }),
        );
      });
      sent.on("error", reject);
      sent.end(body);
    });

  test("a session is good at every node, and over at every node; also at one that was away, and at one that comes new", {
    timeout: 60_000,
  }, async () => {
    // As behind a proxy: one host for all.
    const host = "sortie.example.test";
    const own = (cookie: string) => ({ host, cookie });
    const logIn = async (node: TestService): Promise<string> => {
      const { status, cookies } = await send(
        node,
        "POST",
        "/login",
        { host, origin: `http://${host}`, "content-type": "application/x-www-form-urlencoded" },
        String(new URLSearchParams(right)),
      );
      expect(status).toBeLessThan(400);
      return cookies.map((cookie) => cookie.split(";")[0]).join("; ");
    };
    const [ended, stays] = [await logIn(a()), await logIn(b())];
    const statuses = (cookie: string) =>
      Promise.all(nodes.map(async (node) => (await send(node, "GET", "/nodes", own(cookie))).status));
    expect([await statuses(ended), await statuses(stays)]).toEqual([Array(3).fill(200), Array(3).fill(200)]);
    await nodes.pop()?.close();
    const out = await send(a(), "POST", "/logout", { ...own(ended), origin: `http://${host}` });
    expect(out.status).toBeLessThan(400);
    await until(
      () => statuses(ended),
      (found) => found.join() === "401,401",
    );
    nodes.push(await start("c"));
    await until(
      () => statuses(ended),
      (found) => found.join() === "401,401,401",
    );
    expect(await statuses(stays)).toEqual([200, 200, 200]);
  });

  test("guesses at one node after the other are as many as at one, and are over at all", {
    timeout: 60_000,
  }, async () => {
    const guess = async (node: TestService) => (await send(node, "GET", "/tasks", basic("wrong"))).status;
    const seen: number[] = [];
    for (let round = 0; round < 12; round += 1) {
      seen.push(await guess(nodes[round % 3] as TestService));
      // What one node saw the others hear within milliseconds.
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect(seen.slice(0, 10)).toEqual(Array(10).fill(401));
    expect(seen.slice(10)).toEqual([429, 429]);
    for (const node of nodes) expect((await send(node, "GET", "/nodes", basic(right.password))).status).toBe(429);
  });

  /** A session of a browser's behind a proxy, and Tasks of it. */
  const logIn = async () => {
    const host = "sortie.example.test";
    // A minute gives ten guesses back; six seconds one.
    const { cookies } = await until(
      () =>
        send(
          a(),
          "POST",
          "/login",
          { host, origin: `http://${host}`, "content-type": "application/x-www-form-urlencoded" },
          String(new URLSearchParams(right)),
        ),
      ({ status }) => status < 400,
      20_000,
      500,
    );
    const session = { host, cookie: cookies.map((cookie) => cookie.split(";")[0]).join("; ") };
    return {
      session,
      create: (node: TestService) => {
        // Each in its own, which is where its node is.
        const directory = mkdtempSync(join(here.path, "plain-"));
        return send(
          node,
          "POST",
          "/task",
          {
            ...session,
            origin: `http://${host}`,
            "content-type": "application/json",
            "x-service-directory": directory,
          },
          JSON.stringify({ request: "say hello", productPillar: "code", isolation: "directory" }),
        );
      },
    };
  };

  test("a provider that fails at one node is left alone by all, and called again by all when it is back", {
    timeout: 60_000,
  }, async () => {
    const { session, create } = await logIn();
    const breakers = async () =>
      Promise.all(
        nodes.map(async (node) => {
          const { text } = await send(node, "GET", "/models", session);
          const { providers } = JSON.parse(text) as { providers: { id: string; breaker: { state: string } }[] };
          return providers.find(({ id }) => id === "mock")?.breaker.state;
        }),
      );
    expect(await breakers()).toEqual(["closed", "closed", "closed"]);
    answer = { fail: { status: 500 } };
    const made = await create(a());
    expect([made.status, made.text]).toEqual([202, made.text]);
    await until(breakers, (states) => states.every((state) => state !== "closed"), 30_000);
    answer = { text: "Done." };
    await until(breakers, (states) => states.every((state) => state === "closed"), 30_000);
  });

  test("a provider that asks one node to wait is asked by no other until then", { timeout: 60_000 }, async () => {
    const { create } = await logIn();
    const times: number[] = [];
    const told = Promise.withResolvers<void>();
    answer = () => {
      times.push(performance.now());
      if (times.length > 1) return { text: "Done." };
      told.resolve();
      return { fail: { status: 429, headers: { "retry-after": "3" } } };
    };
    await create(a());
    await told.promise;
    await new Promise((resolve) => setTimeout(resolve, 300));
    await Promise.all([create(b()), create(b()), create(a())]);
    // The first of them, which was told so, tries again; the others had not been told by anybody.
    await until(
      () => Promise.resolve(times.length),
      (count) => count >= 4,
      30_000,
    );
    expect((times[1] ?? 0) - (times[0] ?? 0)).toBeGreaterThan(2_900);
  });
});
if (postgresURL === undefined) countSkipped(4);
