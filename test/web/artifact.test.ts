import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { createServiceClient } from "../../src/client/client.ts";
import { makeProject } from "../harness/project.ts";
import type { TestService } from "../harness/service.ts";
import { violations } from "./browser.ts";
import { inBrowser, onStage } from "./stage.ts";

/**
 * What a Task hands over beside its commit, on its result: files that a page can show, and pictures of what it serves.
 */

let service: TestService;
let page: Page;
let complaints: string[] = [];

const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR4nGP8zwACTGCSAQANHQEDgslx/wAAAABJRU5ErkJggg==";
const write = (path: string, content: string) => ({ tool: "write", input: { path, content } });
const keep = (path: string, title: string) => ({ tool: "artifact", input: { path, title } });
const files = [
  write("out/report.md", "# Totals\n\nThey **differ** by a cent.\n"),
  write("out/rows.csv", 'name,amount\n"Ada, Countess",1\n"say ""no""",2\n<b>x</b>,3\n'),
  write("out/facts.json", '{"a":{"b":[1,2]}}'),
  {
    tool: "shell",
    input: { command: `echo ${pixel} | base64 -d > out/chart.png; head -c 300 /dev/urandom > out/raw.bin` },
  },
];
const kept = [
  keep("out/report.md", "What was found"),
  keep("out/rows.csv", "By person"),
  keep("out/facts.json", "For programs"),
  keep("out/chart.png", "Over time"),
  keep("out/raw.bin", "As it came"),
];

const root = onStage({
  name: "artifact",
  height: 900,
  model: ({ first, turn }) => {
    if (first.includes("paint")) return turn === 0 ? { calls: [write("b.txt", "b\n")] } : { text: "Painted." };
    return turn === 0 ? { calls: files } : turn === 1 ? { calls: kept } : { text: "Handed over." };
  },
  ready: (stage) => void ({ service, page, complaints } = stage),
});

const server = `import { createServer } from "node:http";
createServer((request, response) => {
  response.writeHead(200, { "content-type": "text/html" }).end('<!doctype html><title>t</title><body style="background:blue">');
}).listen(Number(process.argv[2]), "127.0.0.1");
`;

const ended = async (name: string, request: string, checks: object[] = []) => {
  const directory = makeProject(join(root, name), { ".gitignore": "out/\n", "server.mjs": server });
  const client = createServiceClient({ baseUrl: service.url, directory });
  const { data } = await client.task.create({ body: { request, productPillar: "code", checks: checks as never } });
  const taskID = data?.taskID ?? "";
  await client.task.wait({ path: { taskID }, timeoutMs: 60_000 });
  await page.goto(`${service.url}/ui/task/${taskID}`);
  return page.getByRole("region", { name: "Result" });
};

inBrowser("beside the commit", () => {
  test("Markdown, tables, JSON and pictures are shown; what cannot be is downloaded", async () => {
    const result = await ended("handed", "hand over");
    const list = result.getByRole("region", { name: "Artifacts" });
    // The report is open, and so is the picture.
    await list.getByRole("heading", { name: "Totals" }).waitFor();
    expect(await list.locator("strong").allTextContents()).toEqual(["differ"]);
    const picture = list.getByRole("img", { name: "Over time" });
    await expect
      .poll(() => picture.evaluate((image) => (image as unknown as { naturalWidth: number }).naturalWidth))
      .toBe(2);
    await list.getByRole("button", { name: "Show rows.csv" }).click();
    const table = list.getByRole("table").last();
    await table.getByRole("columnheader", { name: "amount" }).waitFor();
    expect(await table.getByRole("cell").allTextContents()).toEqual([
      "Ada, Countess",
      "1",
      'say "no"',
      "2",
      "<b>x</b>",
      "3",
    ]);
    await list.getByRole("button", { name: "Show facts.json" }).click();
    await expect
      .poll(() => list.getByRole("region", { name: "facts.json" }).innerText())
      .toBe(JSON.stringify({ a: { b: [1, 2] } }, null, 2));
    expect(await list.getByRole("button", { name: "Show raw.bin" }).count()).toBe(0);
    expect(await violations(page)).toEqual([]);
    const downloading = page.waitForEvent("download");
    await list.getByRole("link", { name: "Download raw.bin" }).click();
    expect((await downloading).suggestedFilename()).toBe("raw.bin");
    await page.setViewportSize({ width: 360, height: 640 });
    expect(await page.evaluate<number>("document.querySelector('main').scrollWidth")).toBeLessThanOrEqual(360);
    await page.setViewportSize({ width: 1280, height: 900 });
    expect(complaints).toEqual([]);
  }, 60_000);

  test("a picture of what the Task serves is taken at the press of a button; a wrong address is told", async () => {
    const port = 19_000 + (process.pid % 400);
    const look = {
      kind: "visual",
      id: "look",
      start: `node server.mjs ${port}`,
      url: `http://127.0.0.1:${port}/`,
      viewport: { width: 200, height: 150 },
      timeoutSeconds: 30,
    };
    const result = await ended("painted", "paint it", [look]);
    const preview = result.getByRole("region", { name: "Preview" });
    const address = preview.getByLabel("URL on the Task's server");
    expect(await address.inputValue()).toBe(look.url);
    expect(await preview.getByRole("img").count()).toBe(0);
    await preview.getByRole("button", { name: "Take a screenshot" }).click();
    const picture = preview.getByRole("img");
    await picture.waitFor({ timeout: 40_000 });
    await expect
      .poll(() => picture.evaluate((image) => (image as unknown as { naturalWidth: number }).naturalWidth))
      .toBe(1280);
    expect(await violations(page)).toEqual([]);
    await address.fill("http://example.com/");
    await preview.getByRole("button", { name: "Take a screenshot" }).click();
    await preview.getByRole("alert").getByText("127.0.0.1").waitFor();
    expect(complaints).toEqual([]);
  }, 90_000);
});
