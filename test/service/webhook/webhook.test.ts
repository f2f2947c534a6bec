import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import { makeProject, temporary, until } from "../../harness/project.ts";
import { type MockProvider, type MockTurn, startMockProvider } from "../../harness/double/mock-provider.ts";
import { startReceiver, verified } from "../../harness/receiver.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** Webhooks over HTTP on a real port, to real receivers, verified by a library that is not ours. */

let root: ReturnType<typeof temporary>;
let service: TestService;
let provider: MockProvider;
let scripts: Record<string, MockTurn[]> = {};
let count = 0;

beforeAll(async () => {
  root = temporary("sortie-webhooks-");
  provider = await startMockProvider(({ first, turn }) => {
    const script = Object.entries(scripts).find(([marker]) => first.includes(marker))?.[1] ?? [];
    return script[turn] ?? { text: "Done." };
  });
  mkdirSync(join(root.path, "data"));
  const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "mock-key-0123456789" };
  writeFileSync(
    join(root.path, "data/config.jsonc"),
    JSON.stringify({
      model: "mock/large",
      providers: { mock },
      sandbox: { tier: 3 },
      webhooks: { allow: ["127.0.0.1"] },
    }),
  );
  service = await startService(join(root.path, "data"));
});
afterAll(async () => {
  await service.close();
  await provider.close();
  root[Symbol.dispose]();
});

const project = () => makeProject(join(root.path, `p-${(count += 1)}`), { "a.txt": "one\n" });
/** What the calls of this client give, which throw where there is nothing. */
const must = <T>({ data }: { data?: T | undefined }): T => {
  if (data === undefined) throw new Error("Expected an answer with a body");
  return data;
};
const of = (directory: string) => createServiceClient({ baseUrl: service.url, directory, throwOnError: true });
const raw = async (method: string, path: string, body?: object, headers: Record<string, string> = {}) => {
  const response = await fetch(`${service.url}${path}`, {
    method,
    headers: { "content-type": "application/json", ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    text,
    body: (/^[{[]/.test(text) ? JSON.parse(text) : null) as Record<string, never>,
    headers: response.headers,
  };
};
const secretOfCallbacks = async (): Promise<string> =>
  (await raw("POST", "/webhook/secret")).body["secret"] as unknown as string;
const run = async (directory: string, body: object = {}) => {
  const created = await raw("POST", `/task?directory=${encodeURIComponent(directory)}`, {
    request: "say something",
    productPillar: "work",
    ...body,
  });
  if (created.status !== 202) throw new Error(created.text);
  return created.body["taskID"] as unknown as string;
};

describe("callbackURL", () => {
  test("is told the end of the Task, signed; again after a follow-up; and its query is seen by nobody", async () => {
    await using receiver = await startReceiver();
    const directory = project();
    const url = `${receiver.url}/hook/a?token=t0ken-that-nobody-sees`;
    const taskID = await run(directory, { callbackURL: url, title: "Say", metadata: { ticket: "A-1" } });
    const [first] = await receiver.got(1);
    const message = verified(await secretOfCallbacks(), first!);
    expect(first?.path).toBe("/hook/a?token=t0ken-that-nobody-sees");
    expect(first?.headers).toMatchObject({ "content-type": "application/json", "user-agent": "sortie" });
    expect(message).toEqual({
      type: "task.completed",
      timestamp: expect.stringMatching(/Z$/),
      data: {
        taskID,
        directory,
        title: "Say",
        source: "api",
        status: "inactive",
        lifecycleStatus: "completed",
        attempt: 1,
        summary: "Done.",
        landedCommit: null,
        branch: `sortie/${taskID}`,
        costUSD: null,
        metadata: { ticket: "A-1" },
        eventID: expect.any(Number),
        links: {
          status: `/task/${taskID}/status`,
          board: `/task/${taskID}/board`,
          archive: `/task/${taskID}/project-archive`,
        },
      },
    });
    await of(directory).task.message({ path: { taskID }, body: { source: "test", text: "again" } });
    const [, second] = await receiver.got(2);
    expect(verified(await secretOfCallbacks(), second!)).toMatchObject({
      type: "task.completed",
      data: { attempt: 2 },
    });
    expect(second?.headers["webhook-id"]).not.toBe(first?.headers["webhook-id"]);

    const shown = await raw("GET", `/task/${taskID}/status`);
    expect(shown.body["callbackURL"]).toBe(`${receiver.url}/hook/a`);
    for (const path of [
      `/task/${taskID}`,
      `/task/${taskID}/board`,
      `/task/${taskID}/events?format=json&after=0`,
      "/webhook/deliveries",
    ])
      expect((await raw("GET", path)).text).not.toContain("t0ken");
    expect(receiver.received).toHaveLength(2);
  });
});

describe("webhooks", () => {
  test("are made, listed, changed, tried, replaced and deleted; the secret is shown when it is made", async () => {
    let status = 204;
    await using receiver = await startReceiver((_, response) => response.writeHead(status).end("no"));
    const directory = project();
    const { webhook } = of(directory);
    const body = { url: `${receiver.url}/x?key=1`, events: ["task.completed" as const], description: "Chat" };
    const made = must(await webhook.create({ body, query: { directory } }));
    const { secret, ...record } = made;
    expect(record).toEqual({
      webhookID: expect.stringMatching(/^hook_/),
      url: `${receiver.url}/x`,
      events: ["task.completed"],
      directory,
      description: "Chat",
      state: "enabled",
      reason: null,
      secrets: [{ hint: `…${secret.slice(-4)}`, until: null }],
      failingSince: null,
      createdAt: expect.any(String),
      updatedAt: expect.any(String),
    });
    const path = { webhookID: made.webhookID };
    expect((await webhook.get({ path })).data).toEqual(record);
    expect((await webhook.list()).data).toContainEqual(record);
    expect((await webhook.test({ path })).data).toEqual({
      ...path,
      delivered: true,
      status: 204,
      durationMs: expect.any(Number),
      reason: null,
    });
    expect(verified(secret, receiver.received[0]!)).toMatchObject({ type: "webhook.test", data: path });
    status = 418;
    expect((await webhook.test({ path })).data).toMatchObject({
      delivered: false,
      status: 418,
      reason: "Answered 418: no",
    });
    const rotated = must(await webhook.rotate({ path, body: {} }));
    expect(rotated.secret).not.toBe(secret);
    status = 204;
    await webhook.test({ path });
    for (const each of [secret, rotated.secret]) verified(each, receiver.received.at(-1)!);
    expect((await webhook.update({ path, body: { state: "paused", description: "" } })).data).toMatchObject({
      state: "paused",
      description: "",
      secrets: [{ until: null }, { until: rotated.until }],
    });
    expect((await webhook.delete({ path })).data).toEqual({ ...path, deleted: true });
    for (const [method, at] of [
      ["GET", ""],
      ["DELETE", ""],
      ["POST", "/test"],
      ["POST", "/secret"],
    ] as const)
      expect(await raw(method, `/webhook/${made.webhookID}${at}`)).toMatchObject({
        status: 404,
        body: { code: "webhook_not_found" },
      });
    expect(await raw("POST", `/webhook/delivery/${made.webhookID}/redeliver`)).toMatchObject({ status: 404 });
  });

  test("a key makes one webhook, and gives its secret again; the fifty-first is refused", async () => {
    await using receiver = await startReceiver();
    const send = (key: string) => raw("POST", "/webhook", { url: receiver.url }, { "idempotency-key": key });
    const first = await send("one");
    const again = await send("one");
    expect(again.text).toBe(first.text);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    const { webhook } = of("/");
    for (let n = must(await webhook.list()).length; n < 50; n += 1) expect((await send(`more-${n}`)).status).toBe(200);
    expect(await send("last")).toMatchObject({ status: 409, body: { code: "webhook_limit" } });
    for (const { webhookID } of must(await webhook.list())) await webhook.delete({ path: { webhookID } });
    expect((await webhook.list()).data).toEqual([]);
  });

  test("started, asked, cancelled; Missions; in pages, told again, and gone with their Task", async () => {
    await using receiver = await startReceiver();
    const directory = project();
    const client = of(directory);
    const made = must(await client.webhook.create({ body: { url: receiver.url } }));
    scripts = {
      "ask me": [
        { calls: [{ tool: "ask", input: { question: "Which one?", options: ["a", "b"] } }] },
        { text: "So be it." },
      ],
    };
    const taskID = await run(directory, { request: "ask me", callbackURL: `${receiver.url}/own` });
    const ofHook = () => receiver.received.filter(({ path }) => path === "/");
    await receiver.got(3);
    expect(ofHook().map(({ message }) => message.type)).toEqual(["task.started", "task.asked"]);
    const { data: asked } = ofHook()[1]!.message;
    expect(asked).toMatchObject({
      status: "running",
      ask: { kind: "question", prompt: "Which one?", options: ["a", "b"] },
    });
    const ask = "ask" in asked ? asked.ask?.id : undefined;
    await client.task.answer({ path: { taskID, askID: ask ?? "" }, body: { answer: "a" } });
    await receiver.got(5);
    const held = await run(directory, { checks: ["sleep 60"] });
    await receiver.got(6);
    await client.task.cancel({ path: { taskID: held }, body: { reason: "enough" } });
    await receiver.got(7);
    expect(receiver.received.map(({ path, message }) => `${path} ${message.type}`).toSorted()).toEqual([
      "/ task.asked",
      "/ task.cancelled",
      "/ task.completed",
      "/ task.started",
      "/ task.started",
      "/own task.asked",
      "/own task.completed",
    ]);
    expect(ofHook().at(-1)?.message.data).toMatchObject({ taskID: held, error: expect.stringContaining("enough") });
    for (const received of ofHook()) verified(made.secret, received);

    const deliveries = async (query: object = {}) => must(await client.webhook.deliveries({ query }));
    const all = await until(
      deliveries,
      (page) => page.deliveries.filter(({ state }) => state === "delivered").length >= 7,
    );
    const first = await deliveries({ limit: 3 });
    const rest = await deliveries({ limit: 200, cursor: first.nextCursor });
    expect([...first.deliveries, ...rest.deliveries]).toEqual(all.deliveries);
    expect(rest.nextCursor).toBeNull();
    const own = await deliveries({ webhookID: "callback", taskID });
    expect(own.deliveries).toMatchObject([
      { type: "task.completed", state: "delivered", attempts: 1, nextAt: null, last: { status: 204, reason: null } },
      { type: "task.asked" },
    ]);
    const before = receiver.received.length;
    const path = { deliveryID: own.deliveries[0]?.deliveryID ?? "" };
    expect((await client.webhook.redeliver({ path })).data).toEqual({ redelivered: 1 });
    const again = (await receiver.got(before + 1)).at(-1)!;
    expect(again.headers["webhook-id"]).toBe(own.deliveries[0]?.messageID);
    expect((await client.webhook.redeliverDead({ body: { since: "2026-01-01T00:00:00.000Z" } })).data).toEqual({
      redelivered: 0,
    });
    await client.task.delete({ path: { taskID } });
    expect((await deliveries({ taskID })).deliveries).toEqual([]);
    expect((await deliveries({ taskID: held })).deliveries).toHaveLength(2);

    const woken = must(await client.mission.wake({ body: { missionID: "m-hooks", text: "plan" } }));
    await client.mission.abort({ path: { missionID: "m-hooks" }, body: { reason: "not now" } });
    await until(
      () => Promise.resolve(receiver.types()),
      (types) => types.includes("mission.aborted"),
    );
    expect(receiver.received.find(({ message }) => message.type === "mission.aborted")?.message.data).toMatchObject({
      missionID: "m-hooks",
      sessionID: woken.sessionID,
      directory,
      reason: "not now",
      links: { status: "/mission/m-hooks/status" },
    });
    const figures = (await raw("GET", "/metrics")).text;
    expect(figures).toContain('sortie_webhooks{state="enabled"} 1');
    expect(figures).toMatch(/sortie_webhook_deliveries\{state="pending"\} \d/);
    await client.webhook.delete({ path: { webhookID: made.webhookID } });
  });

  test("a secret that an agent says, or a target answers, stands nowhere", async () => {
    await using receiver = await startReceiver();
    const directory = project();
    const client = of(directory);
    const made = must(await client.webhook.create({ body: { url: receiver.url, events: ["task.completed"] } }));
    const callbacks = await secretOfCallbacks();
    scripts = { "say it": [{ text: `One is ${made.secret}, the other ${callbacks.slice("whsec_".length)}.` }] };
    const taskID = await run(directory, { request: "say it", callbackURL: `${receiver.url}/own` });
    await receiver.got(2);
    const zip = await fetch(`${service.url}/task/${taskID}/project-archive?directory=${encodeURIComponent(directory)}`);
    const texts = [
      Buffer.from(await zip.arrayBuffer()).toString("latin1"),
      ...receiver.received.map(({ body }) => body),
      ...(await Promise.all(
        [
          `/task/${taskID}/messages`,
          `/task/${taskID}/events?format=json&after=0`,
          "/webhooks",
          "/webhook/deliveries",
          `/webhook/${made.webhookID}`,
        ].map(async (path) => (await raw("GET", path)).text),
      )),
    ];
    for (const text of texts)
      for (const secret of [made.secret, callbacks]) expect(text).not.toContain(secret.slice("whsec_".length, 40));
    expect(texts.join("")).toContain("[redacted:webhook-secret]");
    await client.webhook.delete({ path: { webhookID: made.webhookID } });
  });
});
