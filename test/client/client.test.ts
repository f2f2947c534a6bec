import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServiceClient, ServiceCallError, StrangeAnswer } from "../../src/client/client.ts";
import type { ErrorBody } from "../../src/protocol/error.ts";
import { createDouble } from "../service/mission/double.ts";

/** The typed client beyond the generated calls: what it throws, and what it sends again. */

let double: Awaited<ReturnType<typeof createDouble>>;
beforeAll(async () => {
  double = await createDouble({ auth: { username: "service", password: "pass" } });
});
afterAll(() => double.close());

type Operation = (call: object) => Promise<{ data?: unknown; error?: unknown }>;

const operationsOf = (client: ReturnType<typeof createServiceClient>) =>
  Object.entries(client).flatMap(([room, operations]) =>
    Object.entries(operations as Record<string, Operation>).map(([name, call]) => ({ name: `${room}.${name}`, call })),
  );

const call = {
  path: {
    taskID: "task_x",
    missionID: "m",
    askID: "a",
    sessionID: "s",
    callID: "c",
    checkID: "c",
    artifactID: "a",
    webhookID: "w",
    deliveryID: "d",
    id: "x",
  },
};

describe("throwOnError", () => {
  test("holds for every operation, and what is thrown is an Error that says all", async () => {
    const throwing = operationsOf(createServiceClient({ baseUrl: double.url, directory: "/here", throwOnError: true }));
    expect(throwing.length).toBeGreaterThan(50);
    for (const { name, call: run } of throwing) {
      const thrown = await run(call).then(
        () => `${name} did not throw`,
        (error: unknown) => error,
      );
      expect([name, thrown instanceof ServiceCallError && thrown instanceof Error]).toEqual([name, true]);
      expect([name, thrown]).toMatchObject([
        name,
        {
          status: 401,
          code: "unauthorized",
          retryable: false,
          remedy: expect.stringContaining("Basic"),
          requestID: expect.stringMatching(/^req_/),
          message: expect.stringContaining("Expected"),
          stack: expect.stringContaining("ServiceCallError"),
        },
      ]);
    }
  });

  test("without it every operation answers with the error's body; a single call can ask for it, or do without", async () => {
    const calm = createServiceClient({ baseUrl: double.url, directory: "/here" });
    for (const { name, call: run } of operationsOf(calm)) {
      const { data, error } = await run(call);
      expect([name, data, error]).toMatchObject([name, undefined, { status: 401, code: "unauthorized" }]);
      expect([name, error instanceof Error]).toEqual([name, false]);
      await expect(run({ ...call, throwOnError: true }), name).rejects.toBeInstanceOf(ServiceCallError);
    }
    const throwing = createServiceClient({ baseUrl: double.url, throwOnError: true });
    for (const { name, call: run } of operationsOf(throwing))
      expect([name, await run({ ...call, throwOnError: false })]).toMatchObject([name, { error: { status: 401 } }]);
  });

  test("a service that is not reached, and what is none", async () => {
    const gone = { baseUrl: "http://127.0.0.1:1", throwOnError: true, retries: 0 };
    await expect(createServiceClient(gone).service.health()).rejects.toThrow(TypeError);
    await expect(createServiceClient(gone).task.events({ path: { taskID: "t" } })).rejects.toThrow(TypeError);
    await using proxy = await serve((_request, response) => void response.writeHead(502).end("<h1>Bad gateway</h1>"));
    const behind = createServiceClient({ baseUrl: proxy.url, throwOnError: true });
    const strange = { name: "StrangeAnswer", status: 502, message: expect.stringContaining("Bad gateway") };
    await expect(behind.service.health()).rejects.toMatchObject(strange);
    await expect(behind.service.health()).rejects.toBeInstanceOf(StrangeAnswer);
    await expect(behind.task.wait({ path: { taskID: "t" } })).rejects.toMatchObject({ status: 502 });
  });
});

type Seen = { method: string | undefined; key: string | undefined; body: string; at: number };

/** A server that answers the nth request with the nth of these, and the last ever after. */
const serve = async (...steps: ((request: IncomingMessage, response: ServerResponse) => void)[]) => {
  const seen: Seen[] = [];
  const take = async (request: IncomingMessage, response: ServerResponse) => {
    let body = "";
    for await (const chunk of request) body += String(chunk);
    const step = steps[Math.min(seen.length, steps.length - 1)];
    seen.push({
      method: request.method,
      key: request.headers["idempotency-key"] as string | undefined,
      body,
      at: performance.now(),
    });
    step?.(request, response);
  };
  const server = createServer((request, response) => void take(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    seen,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
};

const lost = (_request: IncomingMessage, response: ServerResponse) => void response.destroy();
const answered = (_request: IncomingMessage, response: ServerResponse) =>
  void response.writeHead(202, { "content-type": "application/json" }).end('{"task_id":"task_1"}');
const refused =
  (body: Partial<ErrorBody>, headers: Record<string, string> = {}) =>
  (_request: IncomingMessage, response: ServerResponse) =>
    void response
      .writeHead(body.status ?? 503, { "content-type": "application/json", ...headers })
      .end(JSON.stringify({ message: "no", code: "draining", status: 503, requestID: "r", retryable: true, ...body }));

const body = { request: "Run the tests", productPillar: "code" as const };
const create = (url: string, more: object = {}) =>
  createServiceClient({ baseUrl: url, directory: "/here" }).task.create({ body, ...more });

describe("sent again", () => {
  test("a POST whose answer is lost, with its key and body; each call has a key of its own, or the caller's", async () => {
    await using server = await serve(lost, answered);
    expect(await create(server.url)).toMatchObject({ data: { task_id: "task_1" } });
    const [first, second] = server.seen;
    expect(first?.key).toMatch(/^[0-9a-f]{32}$/);
    expect(second).toMatchObject({ key: first?.key, body: JSON.stringify(body) });
    await create(server.url);
    expect(server.seen).toHaveLength(3);
    expect(server.seen[2]?.key).not.toBe(first?.key);
    await create(server.url, { headers: { "Idempotency-Key": "build-118" } });
    expect(server.seen[3]?.key).toBe("build-118");
  });

  test("what the service calls retryable, no sooner than it asks", async () => {
    await using server = await serve(
      refused({ status: 429, code: "rate_limited" }, { "retry-after": "0.4" }),
      refused({ status: 409, code: "idempotency_in_progress" }),
      answered,
    );
    expect(await create(server.url)).toMatchObject({ data: { task_id: "task_1" } });
    const [first, second, third] = server.seen.map(({ at }) => at);
    expect((second ?? 0) - (first ?? 0)).toBeGreaterThan(395);
    expect((third ?? 0) - (second ?? 0)).toBeGreaterThan(395);
    expect(new Set(server.seen.map(({ key }) => key)).size).toBe(1);
  });

  test("a bounded number of times; then the refusal is the answer", async () => {
    await using server = await serve(refused({}, { "retry-after": "0.01" }));
    expect(await create(server.url)).toMatchObject({ error: { code: "draining" } });
    expect(server.seen).toHaveLength(3);
    const never = createServiceClient({ baseUrl: server.url, retries: 0 });
    expect(await never.task.create({ body })).toMatchObject({ error: { code: "draining" } });
    expect(server.seen).toHaveLength(4);
    await using cut = await serve(lost);
    expect((await create(cut.url)).error).toBeInstanceOf(TypeError);
    expect(cut.seen).toHaveLength(3);
  });

  test("nothing else: a refusal for good, a wait that is the caller's, a DELETE without an answer, a call given up", async () => {
    for (const step of [
      refused({ status: 400, code: "invalid_request", retryable: false }),
      refused({ status: 409, code: "task_settled", retryable: false }),
      refused({}, { "retry-after": "3600" }),
    ]) {
      await using server = await serve(step);
      expect((await create(server.url)).data).toBeUndefined();
      expect(server.seen).toHaveLength(1);
    }
    await using cut = await serve(lost);
    const client = createServiceClient({ baseUrl: cut.url, directory: "/here" });
    expect((await client.task.delete({ path: { taskID: "t" } })).error).toBeInstanceOf(TypeError);
    expect(cut.seen.map(({ method, key }) => [method, key])).toEqual([["DELETE", undefined]]);
    await using busy = await serve(refused({}, { "retry-after": "20" }));
    const begun = performance.now();
    const given = await create(busy.url, { signal: AbortSignal.timeout(100) });
    expect(given.data).toBeUndefined();
    expect(performance.now() - begun).toBeLessThan(10_000);
  });

  test("to the real interface: a replay is told as one, and nothing is done twice", async () => {
    const client = createServiceClient({ baseUrl: double.url, directory: "/here", password: "pass" });
    const before = double.writes.length;
    let requests = 0;
    const flaky = createServiceClient({
      baseUrl: double.url,
      directory: "/here",
      password: "pass",
      // Its first answer is lost on the way.
      fetch: async (...sent) => {
        requests += 1;
        const response = await fetch(...sent);
        if (requests > 1) return response;
        throw new TypeError("terminated");
      },
    });
    const made = await flaky.task.create({ body });
    expect(made.response?.headers.get("idempotent-replayed")).toBe("true");
    expect(double.writes.length - before).toBe(1);
    await client.task.create({ body });
    expect(double.writes.length - before).toBe(2);
  });
});
