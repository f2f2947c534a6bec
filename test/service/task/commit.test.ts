import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { git, makeProject, temporary } from "../../harness/project.ts";
import { createTask, logOf, post, settledTask } from "../../harness/double/hostile-text.ts";
import {
  acceptance,
  isDescription,
  type MockProvider,
  type MockRequest,
  type MockTurn,
  partsOf,
  startMockProvider,
  textOf,
} from "../../harness/double/mock-provider.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** The commit that stays in the user's history: what its agent's end says of it, or an answer to one small question. */

const root = temporary("sortie-commit-");
let provider: MockProvider;
let service: TestService;
const scripts = new Map<string, (kind: "work" | "review" | "describe", request: MockRequest) => MockTurn | undefined>();
const asked: MockRequest[] = [];

beforeAll(async () => {
  provider = await startMockProvider(
    (request) => {
      const isReview = request.body.tools?.some((tool) => tool.function.name === "verdict") === true;
      const kind = isDescription(request) ? "describe" : isReview ? "review" : "work";
      if (kind === "describe") asked.push(request);
      const turn = scripts.get(/\[(\w+)\]/.exec(request.first)?.[1] ?? "")?.(kind, request);
      return turn ?? (kind === "review" ? acceptance(request) : { text: "Done." });
    },
    { reviews: "script" },
  );
  const config = join(root.path, "config.jsonc");
  const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
  writeFileSync(
    config,
    JSON.stringify({ model: "mock/large", providers, landing: { author: "Ada Lovelace <ada@example.org>" } }),
  );
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await provider.close();
  root[Symbol.dispose]();
});

const write = (content: string): MockTurn => ({ calls: [{ tool: "write", input: { path: "b.txt", content } }] });
const messageAt = (directory: string): string => git(directory, "log", "-1", "--format=%B");
const long = (name: string) => `Do it [${name}]\n\nAnd say in b.txt what was done, because nobody can tell otherwise.`;

test("has what its agent's end says of the whole change, not its answer to a reviewer; and nobody is asked", async () => {
  let rounds = 0;
  scripts.set("fields", (kind, request) => {
    if (kind === "review")
      return (rounds += 1) === 1
        ? {
            calls: [
              {
                tool: "verdict",
                input: { parts: partsOf(request.first).map((part) => ({ part, verdict: "rejected", notes: "No." })) },
              },
            ],
          }
        : undefined;
    if (kind === "describe") throw new Error("Nobody is to be asked.");
    if (request.turn === 0) return write("one\n");
    if (request.turn === 1)
      return {
        text: "I wrote it.\n\nCommit: Say in b.txt what was done\n\nNobody could tell before, and whoever wanted to know had to read the whole of the history for it.",
      };
    return request.turn === 2 ? write("two\n") : { text: "The rejection was right for the first line." };
  });
  const directory = makeProject(join(root.path, "fields"), { "a.txt": "one\n" });
  git(directory, "config", "commit.gpgSign", "true");
  git(directory, "config", "gpg.program", "/bin/false");
  const taskID = await createTask(service.url, directory, { request: long("fields") });
  const status = await settledTask(service.url, taskID);
  expect(status, status.error).toMatchObject({ lifecycleStatus: "completed", usage: { modelCalls: 6 } });
  expect(messageAt(directory)).toBe(
    `Say in b.txt what was done\n\nNobody could tell before, and whoever wanted to know had to read the\nwhole of the history for it.\n\nTask: ${taskID}\nSquad: base@0.3.0`,
  );
  expect(git(directory, "log", "-1", "--format=%an <%ae>, %cn, %G?")).toBe(
    "Ada Lovelace <ada@example.org>, Ada Lovelace, N",
  );
});

test("is asked for once where the end says nothing of it; a follow-up's describes its own change", async () => {
  const answers = ["Say what was done: in b.txt, at last", "Say it twice"];
  scripts.set("asked", (kind, request) => {
    if (kind === "describe" && answers.length === 1 && request.body["tool_choice"] !== undefined)
      return { fail: { status: 400, message: "no tool_choice here" } };
    if (kind === "describe")
      return {
        calls: [{ tool: "commit_message", input: { title: answers.shift(), body: "So that all can tell." } }],
        usage: { input: 300, output: 20 },
      };
    if (kind === "review") return undefined;
    if (request.turn === 0 || request.turn === 2) return write(`${request.turn}\n`);
    return { text: "Thank you, that is good so far." };
  });
  const directory = makeProject(join(root.path, "asked"), { "a.txt": "one\n" });
  const taskID = await createTask(service.url, directory, { request: long("asked") });
  const status = await settledTask(service.url, taskID);
  expect(status, status.error).toMatchObject({
    lifecycleStatus: "completed",
    usage: { modelCalls: 4, inputTokens: 600 },
  });
  expect(messageAt(directory)).toBe(
    `Say what was done: in b.txt, at last\n\nSo that all can tell.\n\nTask: ${taskID}\nSquad: base@0.3.0`,
  );
  await post(service.url, `/task/${taskID}/message`, directory, {
    source: "user",
    text: "Thank you. Now a second thing.",
  });
  expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed", attempt: 2 });
  expect(messageAt(directory)).toMatch(/^Say it twice\n\nSo that all can tell\.\n\nTask: /);
  const questions = asked.filter(({ first }) => first.includes("[asked]"));
  expect(questions.map(({ body }) => body["tool_choice"] !== undefined)).toEqual([true, true, false]);
  expect(questions[0]?.body["tool_choice"]).toEqual({ type: "function", function: { name: "commit_message" } });
  expect(questions[0]?.first).toContain("+0");
  expect(questions[1]?.first).toContain("Now a second thing.");
  expect(textOf(questions[1]?.body.messages)).not.toContain("good so far");
  const log = await logOf(service.url, taskID);
  expect(log.filter(({ type }) => type === "commit.described")).toHaveLength(2);
});

test("has the Task's title in whole words where no answer comes, and never the last words", async () => {
  scripts.set("mute", (kind, request) =>
    kind === "describe" ? { fail: { status: 400 } } : request.turn === 0 && kind === "work" ? write("x\n") : undefined,
  );
  const directory = makeProject(join(root.path, "mute"), { "a.txt": "one\n" });
  const first = "Make the helper that everybody uses for everything say in b.txt what was done [mute]";
  const taskID = await createTask(service.url, directory, { request: first });
  expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
  expect(messageAt(directory)).toBe(
    `Make the helper that everybody uses for everything say in b.txt what was\n\nTask: ${taskID}\nSquad: base@0.3.0`,
  );
});
