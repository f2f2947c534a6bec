import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { createServiceClient } from "../../src/client/client.ts";
import { makeProject } from "../harness/project.ts";
import type { TestService } from "../harness/service.ts";
import { violations } from "./browser.ts";
import { inBrowser, onStage } from "./stage.ts";

/** What only some Tasks have to tell: their place in the queue, whether their tests prove the change, who is who. */

let service: TestService;
let page: Page;
let complaints: string[] = [];
let count = 0;

const testOf = (body: string) =>
  `import test from "node:test";\nimport assert from "node:assert";\nimport { add } from "./math.mjs";\n${body}\n`;
const files = {
  "package.json": JSON.stringify({ scripts: { test: "node --test" } }),
  "math.mjs": "export const add = (a, b) => a - b;\n",
  "math.test.mjs": testOf('test("zero", () => assert.equal(add(0, 0), 0));'),
};
const changed = {
  "math.mjs": "export const add = (a, b) => a + b;\n",
  "math.test.mjs": testOf('test("sum", () => assert.equal(add(1, 2), 3));'),
};

const root = onStage({
  name: "told",
  env: { SERVICE_MAX_RUNNING: "1" },
  model: ({ first, turn }) => {
    if (first.includes("hold")) return { text: "Looking.", hold: true };
    if (!first.includes("prove it") || turn > 0) return { text: "Done." };
    return {
      calls: Object.entries(changed).map(([path, content]) => ({ tool: "write", input: { path, content } })),
    };
  },
  ready: (stage) => void ({ service, page, complaints } = stage),
});

const project = (): string => makeProject(join(root, `project-${(count += 1)}`), files);
const create = async (directory: string, request: string) => {
  const client = createServiceClient({ baseUrl: service.url, directory });
  const { data } = await client.task.create({ body: { request, title: request, productPillar: "code" } });
  return { client, taskID: data?.taskID ?? "" };
};
const header = () => page.getByRole("region", { name: "The Task" });

inBrowser("what a Task tells", () => {
  test("how many are ahead of it in the queue, counting down, on its page and in its row", async () => {
    const directory = project();
    const tasks = [];
    for (const request of ["hold the only place", "wait first", "wait second", "wait third"])
      tasks.push(await create(directory, request));
    const [held, first, second, last] = tasks;
    if (!held || !first || !second || !last) throw new Error("Expected four Tasks.");
    await page.goto(`${service.url}/ui/task/${last.taskID}`);
    await header().getByText("Waiting in the queue").waitFor();
    await header().getByText("2 ahead").waitFor();
    await first.client.task.cancel({ path: { taskID: first.taskID }, body: {} });
    await header().getByText("1 ahead").waitFor({ timeout: 4000 });
    await second.client.task.cancel({ path: { taskID: second.taskID }, body: {} });
    await header().getByText("next in line").waitFor({ timeout: 4000 });
    await page.goto(`${service.url}/?project=${directory}`);
    await page
      .getByRole("link", { name: /wait third/ })
      .getByText("next in line")
      .waitFor();
    await held.client.task.cancel({ path: { taskID: held.taskID }, body: {} });
    await last.client.task.wait({ path: { taskID: last.taskID } });
    expect(complaints).toEqual([]);
  }, 60_000);

  test("that its tests fail without the change, on the result; each agent in one colour wherever it is named", async () => {
    const { client, taskID } = await create(project(), "prove it");
    await client.task.wait({ path: { taskID } });
    await page.goto(`${service.url}/ui/task/${taskID}`);
    const proof = page.getByRole("region", { name: "Result" }).getByRole("region", { name: "Proof by contrast" });
    await proof.getByText(/proves the change/i).waitFor();
    expect(await violations(page)).toEqual([]);

    const dots = (agent: string) =>
      page
        .getByRole("main")
        .locator(".size-2.rounded-full")
        .evaluateAll(
          (found, name) =>
            found
              .filter((dot) => dot.parentElement?.textContent?.startsWith(name) === true)
              .map((dot) => /\bbg-agent-\d\b/.exec(dot.className)?.[0]),
          agent,
        );
    const coloursAt = async (tab: RegExp) => {
      await page.getByRole("tab", { name: tab }).click();
      await expect.poll(async () => (await dots("reviewer")).length).toBeGreaterThan(0);
      return { orchestrator: new Set(await dots("orchestrator")), reviewer: new Set(await dots("reviewer")) };
    };
    const talk = await coloursAt(/^Conversation/);
    const who = await coloursAt(/^Topology/);
    expect(who).toEqual(talk);
    expect([talk.orchestrator.size, talk.reviewer.size]).toEqual([1, 1]);
    // Control: two agents have two colours.
    expect([...talk.orchestrator]).not.toEqual([...talk.reviewer]);
    expect(complaints).toEqual([]);
  }, 60_000);
});
