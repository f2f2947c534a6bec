import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServiceClient } from "../../../src/client/client.ts";
import {
  type MockProvider,
  type MockRequest,
  type MockTurn,
  startMockProvider,
  textOf,
} from "../../harness/double/mock-provider.ts";
import { git, makeProject, temporary, writeFiles } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** What a follow-up begins with: the same words as before, then what landed and what has changed, then the message. */

const root = temporary("sortie-follow-up-");
const scripts: Record<string, MockTurn[]> = {};
const requests: Record<string, MockRequest[]> = {};
let provider: MockProvider;
let service: TestService;
let count = 0;

const start = () => startService(join(root.path, "data"), { SERVICE_CONFIG: join(root.path, "config.jsonc") });

beforeAll(async () => {
  provider = await startMockProvider((request) => {
    const marker = /\[(\w+)\]/.exec(request.first)?.[1] ?? "";
    (requests[marker] ??= []).push(request);
    return scripts[marker]?.[request.turn] ?? { text: "Done." };
  });
  const mock = { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" };
  writeFileSync(join(root.path, "config.jsonc"), JSON.stringify({ providers: { mock } }));
  service = await start();
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

const write = (path: string): MockTurn => ({ calls: [{ tool: "write", input: { path, content: "new\n" } }] });
const done = (title: string): MockTurn => ({ text: `It is done.\n\nCommit: ${title}` });
const clientFor = (directory: string) => createServiceClient({ baseUrl: service.url, directory });

/** A Task, and then its follow-ups. */
const begin = async (turns: MockTurn[], uncommitted: Record<string, string> = {}) => {
  const marker = `f${(count += 1)}`;
  scripts[marker] = turns;
  const directory = makeProject(join(root.path, marker), { "a.txt": "one\n" });
  writeFiles(directory, uncommitted);
  const body = { request: `do it [${marker}]`, model: "mock/large" as const, productPillar: "code" as const };
  const taskID = (await clientFor(directory).task.create({ body })).data?.taskID ?? "";
  const ended = async () => {
    const { data } = await clientFor(directory).task.wait({ path: { taskID }, timeoutMs: 20_000 });
    expect(data?.lifecycleStatus, data?.error).toBe("completed");
    return data;
  };
  await ended();
  return {
    directory,
    messages: () => (requests[marker] ?? []).map(({ body: { messages } }) => messages),
    ended,
    follow: async (text: string) => {
      await clientFor(directory).task.message({ path: { taskID }, body: { source: "test", text } });
      return ended();
    },
  };
};

test("its requests begin with what was sent before, byte by byte, and say what landed before the new message", async () => {
  const turns = [write("b.txt"), done("Add b"), write("c.txt"), done("Add c")];
  const { directory, messages, follow } = await begin(turns);
  const first = git(directory, "rev-parse", "HEAD");
  const sent = messages().at(-1) ?? [];

  // Also by a service that knows nothing but its log.
  await service[Symbol.asyncDispose]();
  service = await start();
  const status = await follow("Now c, too.");

  const next = messages()[2] ?? [];
  expect(JSON.stringify(next.slice(0, sent.length))).toBe(JSON.stringify(sent));
  expect(textOf(next.at(-1)?.content)).toBe(
    `[From the service: Your work so far landed as ${first.slice(0, 12)} on main; the next commit holds what you change from now on. Of what you were told, this is different now:\nThis Task\n- It begins at commit ${first.slice(0, 12)}.\n- At its root: a.txt b.txt]\n\nNow c, too.`,
  );
  // It stays so in what follows.
  expect(messages()[3]?.slice(0, next.length)).toEqual(next);
  expect(textOf(sent[0]?.content)).toContain(
    "what changed since the last landing and why, all of it and not your last step alone.",
  );
  expect(git(directory, "log", "--format=%s")).toBe("Add c\nAdd b\nfirst");
  expect(status?.git.landings.map(({ commit, branch, diffStat }) => [commit, branch, diffStat?.files])).toEqual([
    [first, "main", 1],
    [git(directory, "rev-parse", "HEAD"), "main", 1],
  ]);
});

test("control: where nothing landed and nothing changed, nothing stands before it", async () => {
  const { messages, follow } = await begin([{ text: "There is one line in a.txt." }, { text: "It says one." }]);
  await follow("And what does it say?");
  expect(textOf(messages().at(-1)?.at(-1)?.content)).toBe("And what does it say?");
});

test("what the user had not committed is spoken of only where there is something", async () => {
  const shell: MockTurn = { calls: [{ tool: "shell", input: { command: "ls" } }] };
  const told = "The files hold what the user had not committed, too.";
  const clean = await begin([shell, shell]);
  const dirty = await begin([shell, shell], { "mine.txt": "mine\n" });
  const resultsOf = (sent: Awaited<ReturnType<typeof begin>>) =>
    (sent.messages().at(-1) ?? []).filter(({ role }) => role === "tool").map(({ content }) => textOf(content));
  expect(resultsOf(clean).map((text) => text.includes(told))).toEqual([false, false]);
  expect(resultsOf(dirty).map((text) => text.includes(told))).toEqual([true, false]);
  expect(textOf(dirty.messages()[0]?.[0]?.content)).not.toContain("had not committed");
});

test("a Task without a title is named by what it landed first; a caller's title stays", async () => {
  const directory = makeProject(join(root.path, "named"), { "a.txt": "one\n" });
  const client = clientFor(directory);
  const request = (marker: string) =>
    `Please look after \`accepts()\` in the module of helpers, which ignores what \`supports\` says [${marker}]\nMore.`;
  const titleOf = async (marker: string, title?: string) => {
    scripts[marker] = [
      write(`${marker}.txt`),
      done("fix(accepts): heed `supports`"),
      write(`c-${marker}.txt`),
      done("Add c"),
    ];
    const named = title === undefined ? {} : { title };
    const made = { request: request(marker), model: "mock/large" as const, productPillar: "code" as const, ...named };
    const taskID = (await client.task.create({ body: made })).data?.taskID ?? "";
    const before = (await client.task.status({ path: { taskID } })).data?.title;
    await client.task.wait({ path: { taskID }, timeoutMs: 20_000 });
    await client.task.message({ path: { taskID }, body: { source: "test", text: "Now c." } });
    const after = (await client.task.wait({ path: { taskID }, timeoutMs: 20_000 })).data;
    expect(after?.git.landings).toHaveLength(2);
    return [before, after?.title];
  };
  const cut = "Please look after `accepts()` in the module of helpers, which ignores what…";
  expect(await titleOf("t1")).toEqual([cut, "fix(accepts): heed `supports`"]);
  expect(await titleOf("t2", "Mine")).toEqual(["Mine", "Mine"]);
});

test("a lead is told what it has: a budget where there is one, a window that is small", async () => {
  const directory = makeProject(join(root.path, "bounds"), { "a.txt": "one\n" });
  const client = clientFor(directory);
  const systemOf = async (marker: string, budget: { maxTokens: number; maxMinutes: number } | undefined) => {
    const bounds = budget === undefined ? {} : { budget };
    const made = {
      request: `Look [${marker}]`,
      model: "mock/large" as const,
      productPillar: "code" as const,
      ...bounds,
    };
    const taskID = (await client.task.create({ body: made })).data?.taskID ?? "";
    await client.task.wait({ path: { taskID }, timeoutMs: 20_000 });
    return textOf(requests[marker]?.[0]?.body.messages[0]?.content);
  };
  const bound = await systemOf("w1", { maxTokens: 2_000_000, maxMinutes: 30 });
  expect(bound).toContain(
    "- Your window: 32,768 tokens.\n- Budget of the Task, all agents together: 2,000,000 tokens, 30 min.\n",
  );
  expect(await systemOf("w2", undefined)).not.toContain("Budget of the Task");
});
