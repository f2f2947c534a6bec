import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { createServiceClient } from "../../src/client/client.ts";
import { makeProject } from "../harness/project.ts";
import type { TestService } from "../harness/service.ts";
import { violations } from "./browser.ts";
import { inBrowser, onStage } from "./stage.ts";

/** The diff of a Task: read on a laptop and a telephone, by keys, commented, and too large to be shown at once. */

let service: TestService;
let page: Page;
let complaints: string[] = [];
let directory = "";
let taskID = "";

const lines = (count: number): string =>
  Array.from({ length: count }, (_, line) => `export const line${line} = "${line}";\n`).join("");
const write = (path: string, content: string) => ({ tool: "write", input: { path, content } });
const few = [
  { tool: "edit", input: { path: "src/sum.js", edits: [{ old: "a - b", new: "a + b" }] } },
  write("docs/use.md", "# Use\n\nAdd.\n"),
  write("package-lock.json", "{}\n"),
  write("src/data/large.js", lines(700)),
];
const many = Array.from({ length: 60 }, (_, file) => write(`src/part-${file}/index.js`, lines(100)));

const root = onStage({
  name: "changes",
  height: 900,
  model: ({ first, turn }) => (turn === 0 ? { calls: first.includes("many") ? many : few } : { text: "Changed." }),
  async ready(stage) {
    ({ service, page, complaints } = stage);
    directory = makeProject(join(root, "project"), {
      "src/sum.js": "// Adds.\nexport const sum = (a, b) => a - b;\n",
    });
    taskID = await ended("change a few files");
  },
});

const ended = async (request: string): Promise<string> => {
  const client = createServiceClient({ baseUrl: service.url, directory });
  const { data } = await client.task.create({ body: { request, productPillar: "code", checks: [] } });
  const { data: task } = await client.task.wait({ path: { taskID: data?.taskID ?? "" } });
  expect(task?.error).toBeUndefined();
  return data?.taskID ?? "";
};
const open = (id = taskID) => page.goto(`${service.url}/ui/task/${id}?tab=changes`);
const table = (path: string) => page.getByRole("region", { name: `Changes of ${path}` });
const rows = () => page.locator(".diff-line").count();
const at = (width: number, height = 900) => page.setViewportSize({ width, height });

inBrowser("the diff", () => {
  test("on a laptop it has the width: the column folds to a rail, code has colours, and words that differ are marked", async () => {
    await open();
    await table("src/sum.js").waitFor();
    const code = table("src/sum.js").locator(".diff-code-insert");
    await code.locator(".hljs-keyword").first().waitFor();
    expect(await code.locator(".diff-code-edit").allTextContents()).toEqual(["+"]);
    // 88 characters of 7.2 px.
    const width = () => code.boundingBox().then((box) => box?.width);
    await expect.poll(width).toBeGreaterThan(633);
    await page.getByRole("button", { name: "Show the column: Slices" }).click();
    await page.getByRole("heading", { name: /^Delivery/ }).waitFor();
    await expect.poll(width).toBeLessThan(500);
    await page.getByRole("button", { name: "Hide the column: Slices" }).click();
    await page.getByRole("button", { name: "Split" }).click();
    await table("src/sum.js").locator(".diff-split").waitFor();
    expect(await violations(page)).toEqual([]);
    await page.reload();
    await table("src/sum.js").locator(".diff-split").waitFor();
    await page.getByRole("button", { name: "Unified" }).click();
    await page.emulateMedia({ colorScheme: "dark" });
    await table("src/sum.js").locator(".hljs-keyword").first().waitFor();
    expect(await violations(page, ["color-contrast"])).toEqual([]);
    await page.emulateMedia({ colorScheme: "light" });
    expect(complaints).toEqual([]);
  });

  test("files stand in their folders; large and generated ones are folded; n, p and v go through them", async () => {
    await at(1280, 500);
    await open();
    await table("docs/use.md").waitFor();
    const files = page.getByRole("navigation", { name: "Changed files" });
    expect(await files.getByRole("link").allTextContents()).toEqual([
      "use.md+3 −0",
      "large.js+700 −0",
      "sum.js+1 −1",
      "package-lock.json+1 −0",
    ]);
    await page.getByRole("button", { name: /^src\/data\/large\.js large/ }).waitFor();
    await page.getByRole("button", { name: /^package-lock\.json generated/ }).waitFor();
    const focused = () => page.evaluate<string>("document.activeElement.closest('section').getAttribute('aria-label')");
    await page.keyboard.press("n");
    expect(await focused()).toBe("src/data/large.js");
    await page.keyboard.press("Enter");
    await table("src/data/large.js").locator(".diff-line").first().waitFor();
    await page.keyboard.press("n");
    expect(await focused()).toBe("src/sum.js");
    await page.keyboard.press("p");
    expect(await focused()).toBe("src/data/large.js");
    await page.keyboard.press("v");
    await page.getByText("1 viewed").waitFor();
    expect(await table("src/data/large.js").count()).toBe(0);
    await files.getByLabel("viewed").waitFor();
    await page.reload();
    await page.getByText("1 viewed").waitFor();
    await files.getByLabel("viewed").waitFor();
    await at(1280);
  });

  test("on a telephone all of a line is seen; of many files only those near the window are laid out", async () => {
    const large = await ended("change many files");
    await at(390, 844);
    await open();
    await table("src/sum.js").locator(".diff-line").first().waitFor();
    expect(
      await page.evaluate<number>(
        "Math.max(...[...document.querySelectorAll('.diff')].map((diff) => diff.parentElement.scrollWidth - diff.parentElement.clientWidth))",
      ),
    ).toBe(0);
    expect((await table("src/sum.js").locator(".diff-code-insert").boundingBox())?.width).toBeGreaterThan(250);
    expect(await violations(page)).toEqual([]);
    await at(1280);
    await open(large);
    await table("src/part-0/index.js").locator(".diff-line").first().waitFor();
    expect(await rows()).toBeLessThan(1500);
    // Control: the others come as they come near.
    await page.getByRole("navigation", { name: "Changed files" }).locator('a[href*="part-59"]').click();
    await table("src/part-59/index.js").locator(".diff-line").first().waitFor();
    expect(complaints).toEqual([]);
  });

  // The last one: what it sends makes the Task work again.
  test("comments on lines and on files outlive a reload, and go to the Task as one message", async () => {
    await at(1280);
    await open();
    await table("src/sum.js").getByRole("button", { name: "Comment on line 2", exact: true }).click();
    await page.getByRole("textbox", { name: "Comment on line 2 of src/sum.js" }).fill("Use a loop.");
    await page.keyboard.press("Control+Enter");
    await page.getByRole("button", { name: "Comment on docs/use.md" }).press("Enter");
    await page.getByRole("textbox", { name: "Comment on docs/use.md" }).fill("Say why.");
    await page.getByRole("button", { name: "Add to review" }).click();
    const bar = page.getByRole("region", { name: "Review" });
    await bar.getByText("2 comments").waitFor();
    expect(await violations(page)).toEqual([]);
    await page.reload();
    await table("src/sum.js").getByText("Use a loop.").waitFor();
    await table("src/sum.js").getByRole("button", { name: "Remove" }).click();
    await bar.getByText("1 comment").waitFor();
    await table("src/sum.js").getByRole("button", { name: "Comment on line 2 before", exact: true }).click();
    await page.getByRole("textbox", { name: "Comment on line 2 of src/sum.js" }).fill("Why was it so?");
    await page.getByRole("button", { name: "Add to review" }).click();
    await bar.getByRole("button", { name: "Send review" }).click();
    await bar.waitFor({ state: "detached" });
    const client = createServiceClient({ baseUrl: service.url, directory });
    await client.task.wait({ path: { taskID } });
    const { data } = await client.task.messages({ path: { taskID } });
    expect(data?.messages.filter(({ source }) => source === "web").map(({ text }) => text)).toEqual([
      "Review of the changes:\n\n`docs/use.md`\n\nSay why.\n\n`src/sum.js`, removed line 2\n> `export const sum = (a, b) => a - b;`\n\nWhy was it so?",
    ]);
    expect(complaints).toEqual([]);
  });
});
