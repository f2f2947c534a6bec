import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { createServiceClient } from "../../src/client/client.ts";
import { makeProject } from "../harness/project.ts";
import type { TestService } from "../harness/service.ts";
import { violations } from "./browser.ts";
import { inBrowser, onStage } from "./stage.ts";

/** The palette: it finds what the service has, from any screen, and does things. */

let service: TestService;
let page: Page;
let complaints: string[] = [];

const root = onStage({
  name: "palette",
  model: ({ first, turn }) => {
    if (first.includes("hold")) return { text: "Looking.", hold: true };
    return turn === 0 && first.includes("currency")
      ? { calls: [{ tool: "ask", input: { question: "Which currency?", options: ["EUR", "USD"] } }] }
      : { text: "Done." };
  },
  ready: (stage) => void ({ service, page, complaints } = stage),
});

const begin = async (project: string, title: string) => {
  const directory = join(root, project);
  makeProject(directory, { "a.txt": "one\n" });
  const client = createServiceClient({ baseUrl: service.url, directory });
  const { data } = await client.task.create({ body: { request: title, title, productPillar: "code", checks: [] } });
  return { client, taskID: data?.taskID ?? "" };
};
const type = async (words: string) => {
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Go to a screen" }).fill(words);
};
const first = () => page.getByRole("listbox", { name: "Results" }).getByRole("option").first();

inBrowser("the palette", () => {
  test("a Task that no screen has loaded is found and opened; an answer is given, a theme chosen", async () => {
    const { client, taskID } = await begin("billing", "Find the currency of totals");
    await page.goto(`${service.url}/ui/models`);
    await page.getByRole("heading", { level: 1, name: "Models" }).waitFor();
    await expect.poll(() => page.title(), { timeout: 15_000 }).toBe("(1) Models · Sortie");
    await type("totals");
    await first().getByText("Find the currency of totals").waitFor();
    expect(await violations(page)).toEqual([]);
    await page.keyboard.press("Enter");
    await page.waitForURL(`**/ui/task/${taskID}`);
    await page.goto(`${service.url}/ui/squads`);
    await page.getByRole("heading", { level: 1, name: "Squads" }).waitFor();
    await type("answer eur");
    await first().getByText("Answer “EUR”: Which currency?").waitFor();
    await page.keyboard.press("Enter");
    await page.getByText("Answered", { exact: true }).waitFor();
    const { data } = await client.task.wait({ path: { taskID } });
    expect(data?.lifecycleStatus).toBe("completed");
    const theme = () => page.evaluate<string | null>("document.documentElement.getAttribute('data-theme')");
    for (const wanted of ["dark", "light"]) {
      await type(`${wanted} theme`);
      await first().getByText(`${wanted} theme`).waitFor();
      await page.keyboard.press("Enter");
      await expect.poll(theme).toBe(wanted);
    }
    expect(complaints).toEqual([]);
  }, 60_000);

  test("the Task that is open is cancelled, with its reason asked for, and its archive downloaded", async () => {
    const { taskID } = await begin("website", "hold on here");
    await page.goto(`${service.url}/ui/task/${taskID}`);
    await page.getByRole("region", { name: "The Task" }).getByText("Working", { exact: true }).waitFor();
    await type("cancel");
    await first().getByText("Cancel this Task").waitFor();
    await page.keyboard.press("Enter");
    await page.getByLabel("Reason, shown with the Task").fill("not needed");
    await page.getByRole("button", { name: "Cancel the Task" }).click();
    await page.getByRole("region", { name: "Result" }).getByText("not needed").waitFor();
    expect(new URL(page.url()).hash).toBe("");
    await type("download");
    await first().getByText("Download the archive").waitFor();
    const downloading = page.waitForEvent("download");
    await page.keyboard.press("Enter");
    expect((await downloading).suggestedFilename()).toMatch(/\.zip$/);
    // What is over cannot be cancelled.
    await type("cancel this");
    await page.getByText("No results").waitFor();
    expect(complaints).toEqual([]);
  });
});
