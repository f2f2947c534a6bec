import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import type { Frame } from "../../../src/protocol/event/frame.ts";
import type { TaskStatus } from "../../../src/protocol/task/status.ts";
import { processesOf, startProcess } from "../../crash/process.ts";
import { git, makeProject, readText, temporary, until } from "../../harness/project.ts";
import { type MockProvider, type MockTurn, startMockProvider } from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";

/**
 * Whole Tasks of external agents: a program of its own (test/fixtures/acp/agent.ts, on the official library) that
 * speaks ACP with the service and OpenAI chat with the mock model. The night run does the same with one from npm.
 */

const scripts: Record<string, MockTurn[]> = {};
let provider: MockProvider;
let service: TestService;
let root: ReturnType<typeof temporary>;
let config: string;
let count = 0;

const script = fileURLToPath(new URL("../../fixtures/acp/agent.ts", import.meta.url));
const repository = fileURLToPath(new URL("../../..", import.meta.url));

beforeAll(async () => {
  root = temporary("sortie-acp-");
  provider = await startMockProvider(({ first, turn, body }) => {
    const marker = /\[(\w+)\]/.exec(first)?.[1] ?? "";
    return scripts[marker]?.[turn] ?? { text: `Done after: ${String(body.messages.at(-1)?.content).slice(0, 200)}` };
  });
  config = join(root.path, "config.jsonc");
  const command = `exec ${process.execPath} ${script}`;
  writeFileSync(
    config,
    JSON.stringify({
      // The agent's own program and its libraries.
      sandbox: { paths: [repository] },
      agents: {
        small: { command, env: ["MODEL_URL"] },
        stranger: { command, env: ["MODEL_URL", "NEEDS_LOGIN"] },
        absent: { command: "no-such-agent --acp" },
      },
      permissions: { deny: ["shell(rm)"], ask: ["shell(touch)"] },
    }),
  );
  service = await startService(join(root.path, "data"), env());
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});
const env = () => ({ SERVICE_CONFIG: config, MODEL_URL: provider.baseURL, NEEDS_LOGIN: "1", REPOSITORY: repository });

const project = () => makeProject(join(root.path, `project-${(count += 1)}`), { "a.txt": "one\n" });
const clientFor = (directory: string, baseUrl = service.url) => createServiceClient({ baseUrl, directory });
type Client = ReturnType<typeof clientFor>;
const create = async (client: Client, turns: MockTurn[], more: object = {}): Promise<string> => {
  const marker = `s${(count += 1)}`;
  scripts[marker] = turns;
  const { data, error } = await client.task.create({
    body: { request: `do it [${marker}]`, productPillar: "code", promptProfile: "acp-small", ...more },
  });
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data.taskID;
};
const settled = async (client: Client, taskID: string): Promise<TaskStatus> => {
  const { data, error } = await client.task.wait({ path: { taskID }, timeoutMs: 18_000 });
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
};
const eventsOf = async (url: string, taskID: string): Promise<Frame[]> => {
  const response = await fetch(`${url}/task/${taskID}/events?format=json&after=0`);
  return ((await response.json()) as { events: Frame[] }).events;
};
const call = (tool: string, input: object, text?: string): MockTurn => ({
  calls: [{ tool, input }],
  ...(text === undefined ? {} : { text }),
});

test("its words, calls and edits are the same events, and its work lands after the checks", async () => {
  const directory = project();
  const client = clientFor(directory);
  const taskID = await create(
    client,
    [
      call("write", { path: "b.txt", content: "two\n" }, "I write it."),
      call("shell", { command: "echo three > c.txt; pwd" }),
      call("terminal", { command: "cat b.txt; exit 3" }),
      { text: "Both files are there." },
    ],
    { checks: ["test -f b.txt && test -f c.txt"] },
  );
  const status = await settled(client, taskID);
  expect(status).toMatchObject({
    lifecycleStatus: "completed",
    model: "acp/small",
    squad: { id: "acp-small", scope: "user" },
    usage: { inputTokens: 400, outputTokens: 40, costUSD: null, modelCalls: 4, toolCalls: 3 },
    checks: [{ state: "passed" }],
  });
  expect(readText(directory, "b.txt") + readText(directory, "c.txt")).toBe("two\nthree\n");
  expect(git(directory, "log", "-1", "--format=%(trailers)")).toBe(`Task: ${taskID}\nSquad: acp-small@1.0.0`);
  const events = await eventsOf(service.url, taskID);
  const agents = ["agent.attached", "reply.finished", "tool.started", "tool.finished"];
  expect(events.filter(({ type }) => agents.includes(type)).map(({ type }) => type)).toEqual([
    "agent.attached",
    ...Array.from({ length: 3 }).flatMap(() => ["reply.finished", "tool.started", "tool.finished"]),
    "reply.finished",
  ]);
  const finished = events.filter((event) => event.type === "tool.finished");
  expect(finished.map(({ data }) => [data.tool, data.outcome])).toEqual([
    ["edit", "ok"],
    ["execute", "ok"],
    ["execute", "error"],
  ]);
  expect(finished[2]?.data.output).toBe("two");
  const { data } = await client.task.messages({ path: { taskID } });
  expect(data?.messages.map(({ role, text }) => [role, text])).toEqual([
    ["user", expect.stringContaining("do it")],
    ["assistant", "I write it."],
    ["assistant", ""],
    ["assistant", ""],
    ["assistant", "Both files are there."],
  ]);
  // It does the work alone, and is told the rules of the house as every agent is.
  const told = JSON.stringify(provider.requests[0]?.body.messages);
  expect(told).toContain("Repository work: the result is a change to the project, or the answer");
  for (const rule of ["Do not commit, push or switch branches", "are material", "Claim only what you have seen"])
    expect([rule, told.split(rule).length - 1]).toEqual([rule, 1]);
  expect(told).not.toMatch(/you find out and report|Commands have no terminal/);
});

test("a red check goes back to it, and it goes on in its own session", async () => {
  const directory = project();
  const client = clientFor(directory);
  const taskID = await create(
    client,
    [{ text: "Nothing to do." }, call("write", { path: "b.txt", content: "two\n" }), { text: "Now it is there." }],
    { checks: ["test -f b.txt"] },
  );
  expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed" });
  const events = await eventsOf(service.url, taskID);
  expect(events.filter(({ type }) => type === "agent.attached")).toHaveLength(1);
  const again = await client.task.message({ path: { taskID }, body: { source: "api", text: "And once more" } });
  expect(again.data).toMatchObject({ disposition: "restarted" });
  expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed", attempt: 2 });
  const answered = (await eventsOf(service.url, taskID)).findLast(({ type }) => type === "reply.finished");
  expect(answered).toMatchObject({ data: { text: "Done after: And once more" } });
});

test("files outside of the project are refused to it", async () => {
  const directory = project();
  const client = clientFor(directory);
  const outside = join(root.path, "outside.txt");
  const taskID = await create(client, [call("write", { path: outside, content: "no" }), { text: "Refused." }]);
  await settled(client, taskID);
  expect(existsSync(outside)).toBe(false);
  const finished = (await eventsOf(service.url, taskID)).find(({ type }) => type === "tool.finished");
  expect(finished).toMatchObject({
    data: { outcome: "error", output: expect.stringContaining("Expected a path inside") },
  });
});

test("the operator's rules hold for what it asks for and for what it has us do", async () => {
  const directory = project();
  const client = clientFor(directory);
  const taskID = await create(client, [
    call("permitted", { command: "rm a.txt" }),
    call("terminal", { command: "true; rm a.txt" }),
    call("permitted", { command: "touch asked.txt" }),
    call("permitted", { command: "cat a.txt" }),
    { text: "That is all." },
  ]);
  const waiting = await until(
    async () => (await client.task.status({ path: { taskID } })).data,
    (status) => (status?.pending.length ?? 0) > 0,
  );
  expect(waiting).toMatchObject({
    pending: [{ kind: "permission", prompt: "Allow the agent to run `touch asked.txt`?", default: "deny" }],
  });
  const askID = waiting?.pending[0]?.id ?? "";
  await client.task.answer({ path: { taskID, askID }, body: { decision: "allow" } });
  expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed", pending: [] });
  expect(existsSync(join(directory, "a.txt"))).toBe(true);
  expect(existsSync(join(directory, "asked.txt"))).toBe(true);
  const events = await eventsOf(service.url, taskID);
  expect(
    events.flatMap(({ type, data }) => (type === "permission.decided" ? [[data.decision, data.subject, data.by]] : [])),
  ).toEqual([
    ["deny", "rm a.txt", "rule"],
    ["ask", "touch asked.txt", "rule"],
    ["allow", "touch asked.txt", "caller"],
  ]);
  const ends = events.flatMap(({ type, data }) => (type === "tool.finished" ? [[data.outcome, data.output]] : []));
  expect(ends).toEqual([
    ["error", "not allowed"],
    ["error", expect.stringContaining("A rule forbids this")],
    ["ok", ""],
    ["ok", "one"],
  ]);
});

test("a message in the middle is read at the next step", async () => {
  const directory = project();
  const client = clientFor(directory);
  const taskID = await create(client, [call("shell", { command: "until test -f go; do sleep 0.05; done" })]);
  await until(
    () => eventsOf(service.url, taskID),
    (events) => events.some(({ type }) => type === "tool.started"),
  );
  await client.task.message({ path: { taskID }, body: { source: "api", text: "Look at a.txt instead" } });
  const { workspace } = await worktreeOf(taskID);
  writeFileSync(join(workspace, "go"), "");
  expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed" });
  const said = (await eventsOf(service.url, taskID)).filter((event) => event.type === "reply.finished");
  expect(said.at(-1)?.data.text).toBe("Done after: Look at a.txt instead");
});

const worktreeOf = async (taskID: string) => {
  const prepared = (await eventsOf(service.url, taskID)).find((event) => event.type === "workspace.prepared");
  return { workspace: prepared?.type === "workspace.prepared" ? prepared.data.root : "" };
};

test("a cancel ends it with everything it started", async () => {
  const directory = project();
  const client = clientFor(directory);
  const taskID = await create(client, [call("shell", { command: "setsid sleep 300 & sleep 300" })]);
  await until(
    () => eventsOf(service.url, taskID),
    (events) => events.some(({ type }) => type === "tool.started"),
  );
  await until(
    () => Promise.resolve(processesOf(service.dataDir).length),
    (living) => living > 2,
  );
  await client.task.cancel({ path: { taskID }, body: { surface: "api", reason: "enough" } });
  expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "cancelled" });
  expect(processesOf(service.dataDir)).toEqual([]);
});

test.each([
  ["is not installed", "acp-absent", /no-such-agent/, /agents\.absent\.command/],
  ["wants a login", "acp-stranger", /external agent stranger failed/, /Sign in to stranger/],
])("one that %s fails the Task with what to do", async (_what, promptProfile, message, remedy) => {
  const client = clientFor(project());
  const taskID = await create(client, [], { promptProfile });
  const status = await settled(client, taskID);
  expect(status).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "agent_failed" } });
  expect(status.error).toMatch(message);
  expect(status.errorInfo?.remedy).toMatch(remedy);
});

test("names come from the configuration only, and neither model nor effort can be chosen for it", async () => {
  const client = clientFor(project());
  const body = { request: "x", productPillar: "code" } as const;
  const unknown = await client.task.create({ body: { ...body, promptProfile: "acp-other" } });
  expect(unknown.error).toMatchObject({ status: 422, code: "squad_not_available" });
  const model = await client.task.create({ body: { ...body, promptProfile: "acp-small", model: "builtin/rules-1" } });
  expect(model.error).toMatchObject({ status: 400, issues: [{ path: "body.model" }] });
  const effort = await client.task.create({ body: { ...body, promptProfile: "acp-small", effort: "high" } });
  expect(effort.error).toMatchObject({ status: 400, issues: [{ path: "body.effort" }] });
  // Control: with neither it is taken.
  expect(await settled(client, await create(client, []))).toMatchObject({ lifecycleStatus: "completed", effort: null });
});

test("after kill -9 its call is told as interrupted, and its session goes on", { timeout: 60_000 }, async () => {
  using place = temporary("sortie-acp-crash-");
  const directory = makeProject(join(place.path, "project"), { "a.txt": "one\n" });
  const dataDir = join(place.path, "data");
  const marker = join(place.path, "marker");
  const settings = { SERVICE_DATA_DIR: dataDir, HOME: place.path, ...env() };
  const first = await startProcess(settings);
  const taskID = await create(clientFor(directory, first.url), [
    call("write", { path: "b.txt", content: "two\n" }, "One."),
    call("shell", { command: `touch ${marker}; sleep 300` }),
  ]);
  await until(
    () => eventsOf(first.url, taskID),
    (events) => events.filter(({ type }) => type === "tool.started").length === 2,
  );
  await first.kill("SIGKILL");
  await using second = await startProcess(settings);
  const client = clientFor(directory, second.url);
  const status = await settled(client, taskID);
  expect(status).toMatchObject({ lifecycleStatus: "completed" });
  const events = await eventsOf(second.url, taskID);
  const outcomes = events.flatMap((event) => (event.type === "tool.finished" ? [event.data.outcome] : []));
  expect(outcomes).toEqual(["ok", "interrupted"]);
  expect(events.filter(({ type }) => type === "agent.attached")).toHaveLength(1);
  const last = events.findLast((event) => event.type === "reply.finished");
  expect(last).toMatchObject({ data: { text: expect.stringContaining("The service was interrupted") } });
  expect(readFileSync(join(directory, "b.txt"), "utf8")).toBe("two\n");
  // Its sandbox closes behind the end of the run.
  await until(
    () => Promise.resolve(processesOf(dataDir)),
    (left) => left.length === 0,
  );
});
