import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { doctor } from "../../../src/cli/doctor/doctor.ts";
import { createScreen } from "../../../src/cli/terminal/screen.ts";
import { createServiceClient } from "../../../src/client/client.ts";
import type { Frame } from "../../../src/protocol/event/frame.ts";
import { makeProject, readText, temporary, until } from "../../harness/project.ts";
import { type MockProvider, type MockTurn, startMockProvider } from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** A provider that cannot answer: the Task is put off, goes on with another model, or leaves the provider alone. */

/** What the two providers say next; empty: the Task's work. */
const says: Record<"one" | "two", MockTurn[]> = { one: [], two: [] };
let providers: Record<"one" | "two", MockProvider>;
let root: ReturnType<typeof temporary>;
let service: TestService;
let project: string;

const work = (turn: number): MockTurn =>
  turn === 0
    ? { text: "I write.", calls: [{ tool: "write", input: { path: "b.txt", content: "two\n" } }] }
    : { text: "b.txt is written." };

beforeAll(async () => {
  const start = (name: "one" | "two") => startMockProvider(({ turn }) => says[name].shift() ?? work(turn));
  providers = { one: await start("one"), two: await start("two") };
});
afterAll(() => Promise.all([providers.one.close(), providers.two.close()]));

const begin = async (more: object, limits: object = {}) => {
  const config = join(root.path, "config.jsonc");
  const { one, two } = providers;
  const known = {
    one: { kind: "openai-compatible", baseURL: one.baseURL },
    two: { kind: "openai-compatible", baseURL: two.baseURL },
  };
  writeFileSync(config, JSON.stringify({ model: "one/large", providers: known, limits, ...more }));
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
};
beforeEach(() => {
  root = temporary("sortie-models-");
  project = makeProject(join(root.path, "project"), { "a.txt": "one\n" });
});
afterEach(async () => {
  says.one = [];
  says.two = [];
  await service[Symbol.asyncDispose]();
  root[Symbol.dispose]();
});

const client = () => createServiceClient({ baseUrl: service.url, directory: project });
const create = async (more: { model?: `${string}/${string}` } = {}) => {
  const created = await client().task.create({ body: { request: "copy it", productPillar: "code", ...more } });
  return created.data?.taskID ?? "";
};
const status = async (taskID: string) => (await client().task.status({ path: { taskID } })).data;
const settled = async (taskID: string) => (await client().task.wait({ path: { taskID }, timeoutMs: 15_000 })).data;
const eventsOf = async (taskID: string) =>
  ((await (await fetch(`${service.url}/task/${taskID}/events?format=json&after=0`)).json()) as { events: Frame[] })
    .events;
const queued = (taskID: string) =>
  until(
    () => status(taskID),
    (found) => found?.phase === "queued" && found.queue?.notBefore != null,
  );
const metric = async (line: RegExp) => line.exec(await (await fetch(`${service.url}/metrics`)).text())?.[1];
const limited = (seconds: string): MockTurn => ({
  fail: { status: 429, message: "slow down", headers: { "retry-after": seconds } },
});

describe("a quota window", () => {
  test("the Task is queued until then and gives its place up; a restart changes nothing, a message acts at once", async () => {
    await begin({});
    says.one.push(limited("3600"));
    const started = Date.now();
    const taskID = await create();
    const found = await queued(taskID);
    expect(found).toMatchObject({ lifecycleStatus: "active", phase: "queued", queue: { position: 1 } });
    expect(found?.queue?.reason).toContain("one limits the rate of requests (429)");
    const notBefore = Date.parse(found?.queue?.notBefore ?? "");
    expect(notBefore - started).toBeGreaterThan(3_590_000);
    expect(notBefore - Date.now()).toBeLessThanOrEqual(3_600_000);
    await until(
      () => metric(/^sortie_tasks_running (\d+)/m),
      (count) => count === "0",
    );
    expect(await metric(/^sortie_model_setbacks_total\{kind="deferred"\} (\d+)/m)).toBe("1");
    const [row] = (await client().task.list()).data ?? [];
    expect(row?.queue).toEqual(found?.queue);
    const { data: board } = await client().task.board({ path: { taskID } });
    expect(board?.timeline.map(({ type, summary }) => (type === "task.deferred" ? summary : ""))).toContain(
      `Waiting until ${found?.queue?.notBefore}: ${found?.queue?.reason}`,
    );

    const asked = providers.one.count();
    await service[Symbol.asyncDispose]();
    await begin({});
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(providers.one.count()).toBe(asked);
    expect((await status(taskID))?.queue).toEqual(found?.queue);

    await client().task.message({ path: { taskID }, body: { source: "test", text: "try now" } });
    expect(await settled(taskID)).toMatchObject({ lifecycleStatus: "completed", attempt: 1, queue: null });
    expect(readText(project, "b.txt")).toBe("two\n");
    const types = (await eventsOf(taskID)).map(({ type }) => type);
    expect(types.filter((type) => type === "task.deferred")).toHaveLength(1);
    // Nothing was tried again in between.
    expect(types).not.toContain("reply.retried");
  });

  test("when the time has come it goes on by itself", async () => {
    await begin({}, { waitSeconds: 0 });
    says.one.push(limited("1"), limited("1"));
    const taskID = await create();
    expect(await settled(taskID)).toMatchObject({ lifecycleStatus: "completed" });
    const events = await eventsOf(taskID);
    const waits = events.filter((event) => event.type === "task.deferred");
    expect(waits).toHaveLength(2);
    for (const wait of waits) {
      const next = events.find((event) => event.type === "run.started" && event.id > wait.id);
      expect(Date.parse(next?.at ?? "")).toBeGreaterThanOrEqual(Date.parse(wait.data.until));
    }
  });

  test("a cancel acts at once", async () => {
    await begin({});
    says.one.push(limited("3600"));
    const taskID = await create();
    await queued(taskID);
    await client().task.cancel({ path: { taskID }, body: { mode: "wrap_up" } });
    expect(await settled(taskID)).toMatchObject({ lifecycleStatus: "cancelled" });
  });

  test("longer than an operator wants to wait, it fails", async () => {
    await begin({}, { quotaHours: 1 });
    says.one.push(limited("3700"));
    expect(await settled(await create())).toMatchObject({
      lifecycleStatus: "failed",
      errorInfo: { code: "provider_limited", retryable: true },
    });
  });
});

describe("failover", () => {
  test("a used-up quota in the middle: the conversation goes on with the other model", async () => {
    await begin({ failover: ["two/small"] });
    says.one.push(work(0), { fail: { status: 402, message: "no credit" } });
    const taskID = await create();
    expect(await settled(taskID)).toMatchObject({
      lifecycleStatus: "completed",
      model: "two/small",
      sessionInvocationTopology: { nodes: [{ model: "two/small" }, { agent: "reviewer", model: "two/small" }] },
    });
    const switched = (await eventsOf(taskID)).filter((event) => event.type === "model.switched");
    expect(switched.map(({ data }) => data)).toMatchObject([
      { from: "one/large", to: "two/small", code: "provider_refused" },
    ]);
    expect(switched[0]?.data.reason).toContain("no credit");
    const roles = providers.two.requests.at(-1)?.body.messages.map(({ role }) => role);
    expect(roles).toEqual(["system", "user", "assistant", "tool"]);

    // The next attempt begins with the Task's own model again.
    await client().task.message({ path: { taskID }, body: { source: "test", text: "once more" } });
    expect(await settled(taskID)).toMatchObject({ model: "one/large", attempt: 2 });
  });

  test("control: a model that the Task asked for and nobody listed is not replaced", async () => {
    await begin({ failover: ["two/small"] });
    const before = providers.two.count();
    says.one.push({ fail: { status: 402, message: "no credit" } });
    expect(await settled(await create({ model: "one/other" }))).toMatchObject({
      lifecycleStatus: "failed",
      model: "one/other",
      errorInfo: { code: "provider_refused" },
    });
    expect(providers.two.count()).toBe(before);
  });

  test("all of them put off: no circle, the Task waits", async () => {
    await begin({ failover: ["two/small"] });
    says.one.push(limited("3600"), limited("3600"));
    says.two.push(limited("3600"), limited("3600"));
    const taskID = await create();
    await queued(taskID);
    const types = (await eventsOf(taskID)).map(({ type }) => type);
    expect(types.filter((type) => type === "model.switched")).toHaveLength(1);
    await client().task.cancel({ path: { taskID }, body: {} });
    await settled(taskID);
  });
});

describe("breaker", () => {
  test("a provider in trouble is left alone by all Tasks, which /models and /metrics say", async () => {
    await begin({ failover: ["two/small"] }, { breakerFailures: 1 });
    const breaker = async () =>
      (await client().service.models()).data?.providers.find(({ id }) => id === "one")?.breaker;
    expect(await breaker()).toEqual({ state: "closed", failures: 0, since: null, retryAt: null });
    says.one.push({ fail: { status: 503, message: "down" } });
    const before = providers.one.count();
    const first = await create();
    expect(await settled(first)).toMatchObject({ lifecycleStatus: "completed", model: "two/small" });
    expect(await breaker()).toMatchObject({ state: "open", failures: 1 });
    expect(await metric(/^sortie_provider_breaker\{provider="one"\} (\d)/m)).toBe("2");
    // The second Task does not even ask; a model that it insists on makes it wait, and uses no attempt.
    expect(await settled(await create())).toMatchObject({ lifecycleStatus: "completed", model: "two/small" });
    const third = await create({ model: "one/other" });
    const retried = await until(
      async () => (await eventsOf(third)).filter((event) => event.type === "reply.retried"),
      (events) => events.length > 0,
    );
    expect(retried[0]?.data).toMatchObject({ code: "provider_unavailable", attempt: 1, attempts: 6 });
    expect(retried[0]?.data.message).toContain("failed 1 times in a row");
    // One event for the whole pause: it rests until the provider is tried again.
    const rests = Date.parse(String(retried[0]?.data["retryAt"]));
    expect(rests).toBeGreaterThan(Date.parse((await breaker())?.retryAt ?? "") - 100);
    expect(providers.one.count()).toBe(before + 1);
    // Whoever waits for it says so, and since when.
    const { data: waiting } = await client().task.status({ path: { taskID: third } });
    expect(waiting?.now).toMatchObject({
      kind: "provider",
      text: expect.stringMatching(/^Provider one is failing, next try at \d\d:\d\d:\d\d UTC$/) as string,
    });
    const since = (await breaker())?.since;
    expect(since).toMatch(/^\d{4}-/);
    const { data: health } = await client().service.health();
    expect(health?.providers).toMatchObject([{ id: "one", failures: 1, since }]);
    const findings: Parameters<NonNullable<Parameters<typeof doctor>[2]>>[0][] = [];
    const asked = { port: Number(new URL(service.url).port), dataDir: join(root.path, "data") };
    await doctor(asked, createScreen(process.stdout, true), (finding) => findings.push(finding));
    expect(findings.find(({ name }) => name === "Service")).toMatchObject({
      state: "note",
      text: expect.stringContaining(`one failed once and has been paused since ${since}; next try at`),
    });
    await client().task.cancel({ path: { taskID: third }, body: {} });
    await settled(third);
  });
});
