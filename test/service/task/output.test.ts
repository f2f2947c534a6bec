import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { at, createTask, logOf, makeLab, post, send, settledTask } from "../../harness/double/hostile-text.ts";
import type { MockTurn } from "../../harness/double/mock-provider.ts";
import { git, makeProject } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";
import { unpack } from "../../harness/zip-reader.ts";

/** A Task whose caller wants JSON: it meets the schema, or nothing lands. */

let lab: Awaited<ReturnType<typeof makeLab>>;
let service: TestService;
let directory: string;
beforeAll(async () => {
  lab = await makeLab();
  service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
  directory = makeProject(lab.folder(), { "a.txt": "one\n" });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await lab[Symbol.asyncDispose]();
});

const outputSchema = {
  type: "object",
  properties: { answer: { type: "integer" } },
  required: ["answer"],
  additionalProperties: false,
};
const give = (output: unknown): MockTurn => ({ calls: [{ tool: "give_output", input: { output } }] });
const write = (path: string): MockTurn => ({ calls: [{ tool: "write", input: { path, content: "x\n" } }] });
const done: MockTurn = { text: "Done.\n\nCommit: Add a file" };

const play = async (turns: MockTurn[], more: object = { outputSchema }) => {
  const taskID = await createTask(service.url, directory, { ...lab.request(turns), ...more, checks: [] });
  const task = await settledTask(service.url, taskID);
  const log = await logOf(service.url, taskID);
  const count = (type: string) => log.filter((frame) => frame.type === type).length;
  const asked = log.filter((frame) => frame.type === "message.received" && frame.data.source === "output").length;
  return { taskID, task, log, given: count("output.given"), refused: count("output.refused"), asked };
};

test("given wrongly twice, and rightly the third time: status, detail and archive have it", async () => {
  const { taskID, task, given, refused, asked } = await play([
    write("third.txt"),
    give({ answer: "7" }),
    done,
    give('{"answer": 7}'),
    done,
  ]);
  // The first was given wrongly, then the turn ended without one; as a text it counts as what it reads.
  expect([refused, asked, given]).toEqual([2, 1, 1]);
  expect(task).toMatchObject({
    lifecycleStatus: "completed",
    output: { answer: 7 },
    summary: expect.stringMatching(/^Done\./) as string,
  });
  expect(git(directory, "show", `${task.git.landedCommit}:third.txt`)).toBe("x");
  const { body } = await send(service.url, `/task/${taskID}`);
  expect(body).toMatchObject({ output: { answer: 7 }, outputSchema });
  const archive = await fetch(`${service.url}${at(`/task/${taskID}/project-archive`, directory)}`);
  const files = unpack(Buffer.from(await archive.arrayBuffer()));
  expect(JSON.parse(String(files.get("execution-flow/task.json")))).toMatchObject({ output: { answer: 7 } });
});

test("a model that never gives it is asked three times more; then the Task fails, and nothing lands", async () => {
  const head = git(directory, "rev-parse", "HEAD");
  const { task, refused, asked } = await play([write("never.txt"), done, done, done, done, done]);
  expect([refused, asked]).toEqual([4, 3]);
  expect(task).toMatchObject({
    lifecycleStatus: "failed",
    output: null,
    errorInfo: {
      code: "output_invalid",
      retryable: false,
      remedy: expect.stringContaining(task.git.branch ?? "") as string,
    },
  });
  expect(git(directory, "rev-parse", "HEAD")).toBe(head);
  expect(git(directory, "show", `${task.git.branch}:never.txt`)).toBe("x");
});

test("after four wrong ones a right one is taken no more; a message begins a new count", async () => {
  const wrong = Array.from({ length: 4 }, () => give({}));
  const { taskID, task, refused, asked } = await play([...wrong, give({ answer: 1 }), done, give({ answer: 2 }), done]);
  expect([refused, asked, task.errorInfo?.code]).toEqual([4, 0, "output_invalid"]);
  expect(task.error).toContain("must have required property 'answer'");
  await post(service.url, `/task/${taskID}/message`, directory, { source: "api", text: "Again." });
  expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed", output: { answer: 2 } });
});

test("files that are changed afterwards make it old: it is given once more", async () => {
  const { task, given, asked } = await play([give({ answer: 1 }), write("later.txt"), done, give({ answer: 2 }), done]);
  expect([given, asked, task.output]).toEqual([2, 1, { answer: 2 }]);
});

test("a long one and a long schema are kept whole; without a schema there is neither tool nor output", async () => {
  const description = "d".repeat(30_000);
  const long = { text: "ä".repeat(20_000) };
  const { task } = await play([give(long), done], { outputSchema: { type: "object", description } });
  expect(task.output).toEqual(long);
  const first = lab.provider.requests.findLast(({ turn }) => turn === 0);
  expect(JSON.stringify(first?.body.messages)).toContain(description);
  const { task: plain, log } = await play([give({}), done], {});
  expect(plain.output).toBeNull();
  expect(log.find(({ type }) => type === "tool.finished")).toMatchObject({ data: { outcome: "error" } });
});

test("a schema that cannot be used is refused with 422 and nothing written, while others are answered", async () => {
  const before = (await send(service.url, at("/tasks?limit=200", directory))).body as unknown as unknown[];
  const create = (schema: unknown) =>
    post(service.url, "/task", directory, {
      request: "x",
      productPillar: "code",
      model: "mock/large",
      outputSchema: schema,
    });
  let answered = 0;
  const hostile = create({ pattern: "^(a+)+$" }).then((answer) => ({ answer, answered }));
  for (let at = 0; at < 5; at += 1) {
    await fetch(`${service.url}/health`);
    answered += 1;
  }
  const first = await hostile;
  expect(first.answered).toBe(5);
  expect(first.answer).toMatchObject({
    status: 422,
    body: { code: "output_schema_invalid", issues: [{ path: "body.outputSchema" }] },
  });
  const huge = { description: "x".repeat(64 * 1024) };
  for (const schema of [huge, { $ref: "https://example.com/s" }])
    expect((await create(schema)).body).toMatchObject({ status: 422, code: "output_schema_invalid" });
  expect((await create("text")).status).toBe(400);
  const after = (await send(service.url, at("/tasks?limit=200", directory))).body as unknown as unknown[];
  expect(after).toHaveLength(before.length);
});
