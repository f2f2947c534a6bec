import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTask, makeLab, post, settledTask, statusOf } from "../../harness/double/hostile-text.ts";
import { git, makeProject, until } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** Messages to Tasks of the built-in rules that come before their work, or in the middle of it. */

let lab: Awaited<ReturnType<typeof makeLab>>;
let service: TestService;
beforeAll(async () => {
  lab = await makeLab({}, 3);
  service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config, SERVICE_MAX_RUNNING: "1" });
});
afterAll(async () => {
  await service.close();
  await lab[Symbol.asyncDispose]();
});

const block = (name: string) => `\`\`\`txt file=${name}.txt\n${name}\n\`\`\`\n`;
const rules = "builtin/rules-1";

/** How it ends, and what stands in the project then. */
const endOf = async (directory: string, taskID: string) => {
  const { lifecycleStatus, error } = await settledTask(service.url, taskID);
  return [error ?? lifecycleStatus, git(directory, "ls-files").split("\n")];
};
const say = async (directory: string, taskID: string, text: string) => {
  const sent = await post(service.url, `/task/${taskID}/message`, directory, { source: "user", text });
  expect(sent.status, JSON.stringify(sent.body)).toBe(202);
};

test("one that comes while the Task waits for its place is read with the request; control: without one the request alone is done", async () => {
  const directory = makeProject(lab.folder(), { "a.txt": "one\n" });
  const other = makeProject(lab.folder(), { "a.txt": "one\n" });
  const first = await createTask(service.url, other, lab.request([{ text: "Done.", hold: true }]));
  await until(
    () => statusOf(service.url, first),
    ({ phase }) => phase === "working",
  );
  const create = () => createTask(service.url, directory, { request: block("one"), model: rules });
  const taskID = await create();
  await say(directory, taskID, block("two"));
  lab.provider.release();
  expect(await endOf(directory, taskID)).toEqual(["completed", ["a.txt", "one.txt", "two.txt"]]);

  const plain = makeProject(lab.folder(), { "a.txt": "one\n" });
  const control = await createTask(service.url, plain, { request: block("one"), model: rules });
  expect(await endOf(plain, control)).toEqual(["completed", ["a.txt", "one.txt"]]);
});

test("one that comes in the middle of the work is done after it, and so is one to a Task that has ended", async () => {
  const go = join(lab.root, "go");
  const files = {
    "package.json": JSON.stringify({ scripts: { test: `while [ ! -e ${go} ]; do sleep 0.05; done` } }),
  };
  const directory = makeProject(lab.folder(), files);
  const request = `${block("one")}Run the tests.`;
  const taskID = await createTask(service.url, directory, { request, model: rules });
  await until(
    () => statusOf(service.url, taskID),
    ({ now }) => now?.text.includes("npm") === true,
  );
  await say(directory, taskID, block("two"));
  writeFileSync(go, "");
  expect(await endOf(directory, taskID)).toEqual(["completed", ["one.txt", "package.json", "two.txt"]]);
  await say(directory, taskID, block("three"));
  expect(await endOf(directory, taskID)).toEqual(["completed", ["one.txt", "package.json", "three.txt", "two.txt"]]);
});
