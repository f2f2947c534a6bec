import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import type { EventData } from "../../../src/protocol/event/event.ts";
import type { Frame } from "../../../src/protocol/event/frame.ts";
import type { PendingAsk, TaskStatus } from "../../../src/protocol/task/status.ts";
import { git, makeProject, readText, temporary, until } from "../../harness/project.ts";
import { type MockProvider, type MockTurn, startMockProvider } from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";

/**
 * What waits for a person's approval, over HTTP: it is asked for once, holds no place, and anything else is asked anew.
 */

const scripts: Record<string, MockTurn[]> = {};
let provider: MockProvider;
let service: TestService;
let root: ReturnType<typeof temporary>;
let count = 0;

const lines = Array.from({ length: 30 }, (_, at) => `line ${at}\n`).join("");
const project = () => makeProject(join(root.path, `project-${(count += 1)}`), { "a.txt": "one\n", "long.txt": lines });
const clientFor = (directory: string, at = service) => createServiceClient({ baseUrl: at.url, directory });
type Client = ReturnType<typeof clientFor>;

const write = (path: string, content = "x\n"): MockTurn => ({ calls: [{ tool: "write", input: { path, content } }] });
const scripted = async (client: Client, turns: MockTurn[], body: object = {}): Promise<string> => {
  const marker = `s${(count += 1)}`;
  scripts[marker] = turns;
  const { data, error } = await client.task.create({
    body: {
      productPillar: "code",
      request: `do it [${marker}]`,
      model: "mock/large",
      approve: ["landing"],
      ...body,
    },
  });
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data.taskID;
};
const statusOf = async (client: Client, taskID: string): Promise<TaskStatus> => {
  const { data } = await client.task.status({ path: { taskID } });
  if (data === undefined) throw new Error(`No status of ${taskID}`);
  return data;
};
const settled = async (client: Client, taskID: string): Promise<TaskStatus> => {
  const { data, error } = await client.task.wait({ path: { taskID }, timeoutMs: 15_000 });
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
};
/** The approval that the Task waits for, once it is another one than `before`. */
const asked = async (client: Client, taskID: string, before?: PendingAsk): Promise<PendingAsk> => {
  const status = await until(
    () => statusOf(client, taskID),
    ({ pending: [ask], status: activity }) => activity === "inactive" || (ask !== undefined && ask.id !== before?.id),
  );
  const [ask] = status.pending;
  if (ask === undefined) throw new Error(`Expected ${taskID} to wait, got ${JSON.stringify(status)}`);
  return ask;
};
const answer = (
  client: Client,
  taskID: string,
  { id: askID }: PendingAsk,
  body: { decision?: "allow" | "deny"; answer?: string; source?: string },
) => client.task.answer({ path: { taskID, askID }, body });
const eventsOf = async (taskID: string): Promise<Frame[]> => {
  const page = await fetch(`${service.url}/task/${taskID}/events?format=json&after=0&limit=1000`, { headers });
  return ((await page.json()) as { events: Frame[] }).events;
};
const dataOf = <T extends keyof EventData>(events: Frame[], type: T): EventData[T][] =>
  events.flatMap((event) => (event.type === type ? [event.data as EventData[T]] : []));
const headers = { authorization: `Basic ${Buffer.from("ada:secret").toString("base64")}` };

beforeAll(async () => {
  root = temporary("sortie-approval-");
  provider = await startMockProvider(({ first, turn }) => {
    const marker = /\[(\w+)\]/.exec(first)?.[1] ?? "";
    return scripts[marker]?.[turn] ?? { text: "Done." };
  });
  const config = join(root.path, "config.jsonc");
  const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
  writeFileSync(config, JSON.stringify({ providers }));
  service = await startService(join(root.path, "data"), {
    SERVICE_CONFIG: config,
    SERVICE_MAX_RUNNING: "1",
  });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

test("a landing waits without a place until it is approved, and happens once", async () => {
  const directory = project();
  const client = clientFor(directory);
  const taskID = await scripted(client, [write("b.txt")]);
  const ask = await asked(client, taskID);
  const status = await statusOf(client, taskID);
  expect(ask).toEqual({
    id: expect.stringMatching(/^ask_/),
    kind: "approval",
    prompt: "Land this on main? 1 file changed, +1 -0.",
    options: ["allow", "deny"],
    default: null,
    expiresAt: null,
    of: "landing",
    would: {
      subject: expect.stringMatching(/^[0-9a-f]{64}$/),
      commit: status.git.headCommit,
      tree: expect.any(String),
      branch: "main",
    },
  });
  expect(status).toMatchObject({ phase: "waiting", approve: ["landing"], now: { kind: "ask" } });
  expect(status.availableActions).toContain("answer");
  expect(git(directory, "log", "--format=%s")).toBe("first");
  const { data: diff } = await client.task.diff({ path: { taskID }, query: {}, parseAs: "text" });
  expect(diff).toContain("+++ b/b.txt");

  // The only place is free, and a Task that needs no approval lands at once.
  const other = await scripted(clientFor(project()), [write("c.txt")], { approve: [] });
  expect(await settled(client, other)).toMatchObject({ lifecycleStatus: "completed", git: { landings: [{}] } });

  expect((await answer(client, taskID, ask, { answer: "yes" })).error).toMatchObject({ code: "invalid_request" });
  expect((await answer(client, taskID, ask, { decision: "allow", source: "web" })).response?.status).toBe(200);
  expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed", pending: [] });
  expect(readText(directory, "b.txt")).toBe("x\n");
  const events = await eventsOf(taskID);
  expect(dataOf(events, "ask.answered")).toEqual([
    {
      askID: ask.id,
      decision: "allow",
      by: "caller",
      source: "web",
      from: { user: null, address: expect.stringContaining("127.0.0.1") },
    },
  ]);
  expect(dataOf(events, "landing.started")).toHaveLength(1);
  expect((await answer(client, taskID, ask, { decision: "allow" })).error).toMatchObject({ code: "ask_closed" });
});

test("denied with words it goes back to the agent, and the other change is asked for", async () => {
  const directory = project();
  const client = clientFor(directory);
  const taskID = await scripted(client, [write("b.txt"), { text: "First." }, write("b.txt", "better\n")]);
  const first = await asked(client, taskID);
  await answer(client, taskID, first, { decision: "deny", answer: "Say it better." });
  const second = await asked(client, taskID, first);
  expect(second.would?.subject).not.toBe(first.would?.subject);
  const said = dataOf(await eventsOf(taskID), "message.received");
  expect(said.map(({ text, disposition }) => [text, disposition])).toEqual([
    ["The landing was not approved: Say it better.", "steered"],
  ]);
  expect(git(directory, "log", "--format=%s")).toBe("first");
  await answer(client, taskID, second, { decision: "allow" });
  expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed" });
  expect(readText(directory, "b.txt")).toBe("better\n");
});

test("denied without words it fails; a message goes on, and is asked about again", async () => {
  const directory = project();
  const client = clientFor(directory);
  const taskID = await scripted(client, [write("b.txt")]);
  const first = await asked(client, taskID);
  await answer(client, taskID, first, { decision: "deny" });
  const failed = await settled(client, taskID);
  expect(failed).toMatchObject({ lifecycleStatus: "failed", errorInfo: { code: "approval_refused" } });
  expect(git(directory, "log", "--format=%s")).toBe("first");
  await client.task.message({ path: { taskID }, body: { source: "test", text: "As it is, please." } });
  const second = await asked(client, taskID);
  expect(second.would?.subject).toBe(first.would?.subject);
  await answer(client, taskID, second, { decision: "allow" });
  expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed" });
});

test("a message closes what was asked; what is asked then is new", async () => {
  const client = clientFor(project());
  const taskID = await scripted(client, [write("b.txt")]);
  const first = await asked(client, taskID);
  await client.task.message({ path: { taskID }, body: { source: "test", text: "Wait.", onBusy: "queue" } });
  expect((await answer(client, taskID, first, { decision: "allow" })).error).toMatchObject({ code: "ask_closed" });
  const second = await asked(client, taskID, first);
  await client.task.cancel({ path: { taskID }, body: {} });
  expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "cancelled", pending: [] });
  expect((await answer(client, taskID, second, { decision: "allow" })).error).toMatchObject({ code: "ask_closed" });
});

test("what is approved stands when other files move on, and is void when its own do", async () => {
  const directory = project();
  const client = clientFor(directory);
  const commit = (file: string, text: string) => {
    writeFileSync(join(directory, file), text);
    git(directory, "commit", "-qam", `${file} moved`);
  };
  const same = await scripted(client, [write("long.txt", lines.replace("line 2\n", "line two\n"))]);
  const ask = await asked(client, same);
  commit("a.txt", "two\n");
  await answer(client, same, ask, { decision: "allow" });
  expect(await settled(client, same)).toMatchObject({ lifecycleStatus: "completed" });
  const events = await eventsOf(same);
  expect(dataOf(events, "ask.opened")).toHaveLength(1);
  expect(dataOf(events, "approval.moved")).toHaveLength(1);

  const other = await scripted(client, [
    write("long.txt", lines.replace("line 4\n", "line four\n").replace("line 2\n", "line two\n")),
  ]);
  const first = await asked(client, other);
  commit("long.txt", readText(directory, "long.txt").replace("line 25\n", "line twenty-five\n"));
  await answer(client, other, first, { decision: "allow" });
  const second = await asked(client, other, first);
  expect(second.would?.subject).not.toBe(first.would?.subject);
  expect(readText(directory, "long.txt")).toContain("line 4\n");
  await answer(client, other, second, { decision: "allow" });
  expect(await settled(client, other)).toMatchObject({ lifecycleStatus: "completed" });
  expect(readText(directory, "long.txt")).toContain("line four\n");
});

test("a Task in place has no landing to approve", async () => {
  const { error } = await clientFor(project()).task.create({
    body: { productPillar: "code", request: "x", isolation: "directory", approve: ["landing"] },
  });
  expect(error).toMatchObject({ code: "invalid_request", issues: [{ path: "body.approve" }] });
});

test("whose credentials approved is on record", async () => {
  await using guarded = await startService(join(root.path, "guarded"), {
    SERVICE_CONFIG: join(root.path, "config.jsonc"),
    SERVICE_SERVER_USERNAME: "ada",
    SERVICE_SERVER_PASSWORD: "secret",
  });
  const client = createServiceClient({
    baseUrl: guarded.url,
    directory: project(),
    username: "ada",
    password: "secret",
  });
  const taskID = await scripted(client, [write("b.txt")]);
  await answer(client, taskID, await asked(client, taskID), { decision: "allow" });
  await settled(client, taskID);
  const page = await fetch(`${guarded.url}/task/${taskID}/events?format=json&after=0&limit=1000`, { headers });
  const { events } = (await page.json()) as { events: Frame[] };
  expect(dataOf(events, "ask.answered")).toMatchObject([{ from: { user: "ada" } }]);
});

/** One slice of the plan, as a turn. */
const plan = (objective: string, slice?: string): MockTurn["calls"] => [
  {
    tool: "slice",
    input: {
      plan: [{ ...(slice === undefined ? {} : { slice }), title: "B", objective, acceptance: ["b.txt is there"] }],
    },
  },
];
/** What each request offered. */
const offered = (marker: string): string[][] =>
  provider.requests
    .filter(({ body }) => JSON.stringify(body.messages).includes(`[${marker}]`))
    .map(({ body }) => (body.tools ?? []).map(({ function: { name } }) => name));
const resultsOf = (events: Frame[], tool: string) =>
  dataOf(events, "tool.finished").flatMap((end) => (end.tool === tool ? [end.output] : []));

test("until its plan is approved a Task has reading tools alone; then it is carried out", async () => {
  const directory = project();
  const client = clientFor(directory);
  const turns = [
    { calls: [...(plan("Write b.") ?? []), ...(write("early.txt").calls ?? [])] },
    { text: "I mean to write b." },
    write("b.txt"),
  ];
  const taskID = await scripted(client, turns, { approve: ["plan"] });
  const marker = `s${count}`;
  const ask = await asked(client, taskID);
  expect(ask).toMatchObject({ kind: "approval", of: "plan", prompt: "Carry out this plan? It has one part." });
  const status = await statusOf(client, taskID);
  expect(status.goals.map(({ contract }) => contract.objective)).toEqual(["Write b."]);
  expect(
    offered(marker).every((tools) => !tools.some((name) => /write|edit|patch|shell|process|delegate/.test(name))),
  ).toBe(true);
  expect(offered(marker)[0]).toEqual(expect.arrayContaining(["read", "search", "slice"]));
  const before = await eventsOf(taskID);
  expect(resultsOf(before, "write")).toEqual([expect.stringContaining("There is no tool")]);
  expect(dataOf(before, "tree.committed")).toEqual([]);

  await answer(client, taskID, ask, { decision: "allow" });
  expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed" });
  expect(readText(directory, "b.txt")).toBe("x\n");
  expect(() => readText(directory, "early.txt")).toThrow("ENOENT");
  expect(offered(marker).at(-1)).toEqual(expect.arrayContaining(["write", "shell"]));
  const after = await eventsOf(taskID);
  expect(dataOf(after, "message.received").map(({ text }) => text)).toEqual(["The plan is approved: carry it out."]);
  expect(dataOf(after, "ask.opened")).toHaveLength(1);
});

test("a plan that is changed is void: what follows in the same reply does nothing, and it is asked again", async () => {
  const directory = project();
  const client = clientFor(directory);
  const taskID = await scripted(client, [{ text: "I mean to write b." }], { approve: ["plan", "landing"] });
  const marker = `s${count}`;
  const first = await asked(client, taskID);
  const { goals } = await statusOf(client, taskID);
  scripts[marker]?.push(
    { calls: [...(plan("Write c, too.", goals[0]?.sliceID) ?? []), ...(write("b.txt").calls ?? [])] },
    { text: "It has to be more." },
    write("c.txt"),
  );
  await answer(client, taskID, first, { decision: "allow" });
  const second = await asked(client, taskID, first);
  expect(second.of).toBe("plan");
  expect(second.would?.subject).not.toBe(first.would?.subject);
  expect(resultsOf(await eventsOf(taskID), "write")).toEqual([expect.stringContaining("has to be approved first")]);
  await answer(client, taskID, second, { decision: "allow" });
  const third = await asked(client, taskID, second);
  expect(third.of).toBe("landing");
  await answer(client, taskID, third, { decision: "allow" });
  expect(await settled(client, taskID)).toMatchObject({ lifecycleStatus: "completed" });
  expect(git(directory, "show", "--stat", "--format=", "HEAD")).toContain("c.txt");
  expect(() => readText(directory, "b.txt")).toThrow("ENOENT");
});

test("a denied plan goes back with the words; the built-in rules ask about the request itself", async () => {
  const client = clientFor(project());
  const taskID = await scripted(client, [{ text: "All anew." }, { text: "Little." }], { approve: ["plan"] });
  const first = await asked(client, taskID);
  await answer(client, taskID, first, { decision: "deny", answer: "Less." });
  const second = await asked(client, taskID, first);
  expect(offered(`s${count}`).flat()).not.toContain("write");
  await answer(client, taskID, second, { decision: "deny" });
  expect(await settled(client, taskID)).toMatchObject({ errorInfo: { code: "approval_refused" } });

  const directory = project();
  const rules = clientFor(directory);
  const { data } = await rules.task.create({
    body: {
      request: "```txt file=VERSION\n1.2.0\n```",
      productPillar: "code",
      model: "builtin/rules-1",
      approve: ["plan"],
    },
  });
  const ruled = data?.taskID ?? "";
  const ask = await asked(rules, ruled);
  expect(ask.of).toBe("plan");
  await answer(rules, ruled, ask, { decision: "allow" });
  expect(await settled(rules, ruled)).toMatchObject({ lifecycleStatus: "completed" });
  expect(readText(directory, "VERSION")).toBe("1.2.0\n");
});
