import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type Answer,
  expectWhole,
  logOf,
  post,
  send,
  settledTask,
  statusOf,
} from "../../harness/double/hostile-text.ts";
import {
  type MockProvider,
  type MockRequest,
  type MockTurn,
  startMockProvider,
  textOf,
} from "../../harness/double/mock-provider.ts";
import { git, makeProject, readText, temporary, until } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** The next attempt of an ended Task: its request again, from the beginning, on the project as it is now. */

const root = temporary("sortie-retry-");
const requests: Record<string, MockRequest[]> = {};
/** By marker, one list of turns an attempt. */
const attempts: Record<string, MockTurn[][]> = {};
let provider: MockProvider;
let service: TestService;
let count = 0;

const start = () => startService(join(root.path, "data"), { SERVICE_CONFIG: join(root.path, "config.jsonc") });

beforeAll(async () => {
  provider = await startMockProvider((request) => {
    const marker = /\[(\w+)\]/.exec(request.first)?.[1] ?? "";
    if (request.turn === 0) attempts[marker]?.shift();
    (requests[marker] ??= []).push(request);
    return attempts[marker]?.[0]?.[request.turn] ?? { text: "Done." };
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

const write = (path: string, content: string): MockTurn => ({ calls: [{ tool: "write", input: { path, content } }] });
const done: MockTurn = { text: "It is done.\n\nCommit: Change files" };

const begin = async (turns: MockTurn[][], more: object = {}) => {
  const marker = `r${(count += 1)}`;
  // The first request takes one away.
  attempts[marker] = [[], ...turns];
  const directory = makeProject(join(root.path, marker), { "a.txt": "one\n" });
  const body = { request: `do it [${marker}]`, model: "mock/large", productPillar: "code", ...more };
  const made = await post(service.url, "/task", directory, body);
  expect(made.status, JSON.stringify(made.body)).toBe(202);
  const taskID = String(made.body["taskID"]);
  return {
    directory,
    taskID,
    retry: (key?: string): Promise<Answer> =>
      post(service.url, `/task/${taskID}/retry`, directory, undefined, key === undefined ? {} : { key }),
    asked: () => requests[marker] ?? [],
  };
};

test("begins anew on the project as it is now, and names the branch of the attempt that failed", async () => {
  const first = [write("b.txt", "wrong\n"), { ...done, text: "Nonsense." }, { text: "I give up." }, { text: "Still." }];
  const { directory, taskID, retry, asked } = await begin([first, [write("b.txt", "right\n"), done]], {
    checks: ["grep -q right b.txt"],
  });
  const failed = await settledTask(service.url, taskID);
  expect(failed).toMatchObject({ lifecycleStatus: "failed", attempt: 1, errorInfo: { code: "checks_failed" } });
  expect(failed.availableActions).toContain("retry");
  const before = asked().length;
  writeFileSync(join(directory, "a.txt"), "two\n");
  git(directory, "commit", "-qam", "later");

  // By a service that knows nothing but its log.
  await service[Symbol.asyncDispose]();
  service = await start();
  const answer = await retry("once");
  expect(answer).toMatchObject({
    status: 202,
    body: { taskID, accepted: true, attempt: 2, status: "running", lifecycleStatus: "active" },
  });
  expect((await retry("once")).body).toEqual(answer.body);

  const settled = await settledTask(service.url, taskID);
  expect(settled, settled.error).toMatchObject({ lifecycleStatus: "completed", attempt: 2 });
  expect(readText(directory, "b.txt")).toBe("right\n");
  expect(git(directory, "log", "--format=%s")).toBe("Change files\nlater\nfirst");
  expect(git(directory, "show", `sortie/${taskID}.attempt-1:b.txt`)).toBe("wrong");

  // Nothing that was said before is sent again: the request alone, with what the service says of the attempt.
  const { messages } = asked()[before]?.body ?? { messages: [] };
  expect(messages.filter(({ role }) => role !== "system").map(({ role }) => role)).toEqual(["user"]);
  const text = textOf(messages.at(-1)?.content);
  expect(text).toMatch(/^\[From the service: This was tried before, by an attempt that failed: /);
  expect(text).toContain(`What it changed is on the branch sortie/${taskID}.attempt-1, and not in your files`);
  expect(text.endsWith("\n\ndo it [r1]")).toBe(true);
  expect(settled.git.baseCommit).toBe(git(directory, "rev-parse", "HEAD^"));
  expect(settled.goals).toHaveLength(1);
  const said = (await send(service.url, `/task/${taskID}/messages`)).body["messages"] as { role: string }[];
  expect(said.filter(({ role }) => role === "user").length).toBeGreaterThanOrEqual(2);

  // Deleted, it leaves no branch behind.
  expect((await send(service.url, `/task/${taskID}?directory=${directory}`, { method: "DELETE" })).status).toBe(200);
  await until(
    async () => git(directory, "for-each-ref", "refs/heads/sortie", "refs/sortie"),
    (refs) => refs === "",
  );
  expectWhole(directory);
});

test("not while it runs; a cancelled attempt that changed nothing names no branch", async () => {
  const { taskID, retry, asked } = await begin([[{ text: "Slow.", latencyMs: 20_000 }], [done]]);
  await until(
    async () => asked().length,
    (sent) => sent === 1,
  );
  expect((await statusOf(service.url, taskID)).availableActions).not.toContain("retry");
  expect(await retry()).toMatchObject({ status: 409, body: { code: "task_active", details: { taskID } } });
  await post(service.url, `/task/${taskID}/cancel`, (await statusOf(service.url, taskID)).directory, {});
  await settledTask(service.url, taskID);

  expect((await retry()).status).toBe(202);
  const settled = await settledTask(service.url, taskID);
  expect(settled).toMatchObject({ lifecycleStatus: "completed", attempt: 2 });
  const text = textOf(asked().at(-1)?.body.messages.at(-1)?.content);
  expect(text).toMatch(/by an attempt that was cancelled: Cancelled by api\. It left no changes\.\]/);
});

test("control: a message goes on in the conversation and the files that are there", async () => {
  const { directory, taskID, asked } = await begin([[write("b.txt", "wrong\n"), { text: "No." }]], {
    checks: ["grep -q right b.txt"],
  });
  await settledTask(service.url, taskID);
  const before = asked().length;
  attempts["r3"] = [[], [write("b.txt", "right\n"), done]];
  await post(service.url, `/task/${taskID}/message`, directory, { source: "test", text: "Look again." });
  await settledTask(service.url, taskID);
  expect(asked()[before]?.body.messages.length ?? 0).toBeGreaterThan(3);
  expect((await logOf(service.url, taskID)).filter(({ type }) => type === "workspace.prepared")).toHaveLength(1);
});

test("in place it works on the files as they are", async () => {
  const { directory, taskID, retry, asked } = await begin([[write("b.txt", "b\n"), done], [done]], {
    isolation: "directory",
  });
  await settledTask(service.url, taskID);
  expect((await retry()).status).toBe(202);
  const settled = await settledTask(service.url, taskID);
  expect(settled).toMatchObject({ lifecycleStatus: "completed", attempt: 2 });
  expect(readText(directory, "b.txt")).toBe("b\n");
  expect(textOf(asked().at(-1)?.body.messages.at(-1)?.content)).toMatch(
    /by an attempt that completed\. What it changed is in your files\.\]/,
  );
});
