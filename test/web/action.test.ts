import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { createServiceClient } from "../../src/client/client.ts";
import { git, makeProject, readText, writeFiles } from "../harness/project.ts";
import type { TestService } from "../harness/service.ts";
import { violations } from "./browser.ts";
import { inBrowser, onStage } from "./stage.ts";

/** What is done about an ended Task on its page: tried again, taken back, renamed, deleted. */

let service: TestService;
let page: Page;
let complaints: string[] = [];
let count = 0;
const root = onStage({
  name: "action",
  height: 900,
  config: () => ({ limits: { checkRounds: 0 } }),
  ready: (stage) => void ({ service, page, complaints } = stage),
});

const request = 'replace "one" with "two" in a.txt';
const ended = async (checks: string[] = ["true"]) => {
  const directory = makeProject(join(root, `project-${(count += 1)}`), { "a.txt": "one\n" });
  const client = createServiceClient({ baseUrl: service.url, directory });
  const { data } = await client.task.create({ body: { request, productPillar: "code", checks } });
  const taskID = data?.taskID ?? "";
  await client.task.wait({ path: { taskID } });
  await page.goto(`${service.url}/ui/task/${taskID}`);
  await result().waitFor();
  return { directory, client, taskID };
};
const result = () => page.getByRole("region", { name: "Result" });
const dialog = () => page.getByRole("dialog");
const choose = async (item: string) => {
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("menuitem", { name: item, exact: true }).click();
};

inBrowser("an ended Task on the page", () => {
  test("what landed is taken back by a Task of its own, whose page opens and names the first", async () => {
    const { directory, taskID } = await ended();
    expect(readText(directory, "a.txt")).toBe("two\n");
    expect(await result().getByRole("button", { name: "Retry" }).count()).toBe(0);
    await result().getByRole("button", { name: "Revert" }).click();
    await dialog().getByText("one commit on main").waitFor();
    expect(await violations(page)).toEqual([]);
    await dialog().getByRole("button", { name: "Revert" }).click();
    await page.waitForURL((url) => url.pathname.startsWith("/ui/task/") && !url.pathname.endsWith(taskID));
    await result()
      .getByRole("heading", { name: /^Committed \w+ to main$/ })
      .waitFor();
    expect(readText(directory, "a.txt")).toBe("one\n");
    await result().getByRole("link", { name: "another Task" }).click();
    await page.waitForURL(`**/ui/task/${taskID}`);
    expect(complaints).toEqual([]);
  });

  test("where later changes are in the way the dialog stays, and names the file", async () => {
    const { directory } = await ended();
    writeFiles(directory, { "a.txt": "three\n" });
    git(directory, "commit", "--quiet", "--all", "--message=Three");
    await choose("Revert");
    await dialog().getByRole("button", { name: "Revert" }).click();
    await dialog().getByRole("alert").getByText("a.txt").waitFor();
    await dialog().getByRole("button", { name: "Keep it" }).click();
    expect(readText(directory, "a.txt")).toBe("three\n");
  });

  test("a failed one is tried again: the next attempt runs, and its result opens", async () => {
    const { directory, client, taskID } = await ended(["test -e ready"]);
    await result().getByRole("heading", { name: "1 of 1 check failed" }).waitFor();
    expect(await result().getByRole("button", { name: "Revert" }).count()).toBe(0);
    writeFiles(directory, { ready: "" });
    git(directory, "add", "ready");
    git(directory, "commit", "--quiet", "--message=Ready");
    await result().getByRole("button", { name: "Retry" }).click();
    await dialog().getByText("on a separate branch").waitFor();
    await dialog().getByRole("button", { name: "Retry" }).click();
    await result()
      .getByRole("heading", { name: /^Committed \w+ to main$/ })
      .waitFor();
    const { data } = await client.task.status({ path: { taskID } });
    expect([data?.attempt, data?.lifecycleStatus]).toEqual([2, "completed"]);
  });

  test("renamed, then deleted with what is said about that before", async () => {
    const { client, taskID } = await ended();
    await choose("Rename");
    const title = dialog().getByLabel("Title");
    expect(await title.inputValue()).toBe(request);
    await title.fill("  Two instead of one ");
    await title.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Two instead of one", exact: true }).waitFor();
    await choose("Delete");
    await dialog().getByText("stay").waitFor();
    await dialog().getByRole("button", { name: "Delete" }).click();
    await page.getByText("Task deleted").waitFor();
    const { response } = await client.task.status({ path: { taskID } });
    expect(response?.status).toBe(404);
    expect(complaints).toEqual([]);
  });

  test("the log of a failed check opens at its first error; it is searched, wrapped, and whole for the browser", async () => {
    const failing = "for i in $(seq 800); do echo step $i; done; echo 'Error: totals differ by 0.01'; seq 200; exit 1";
    const { taskID } = await ended([failing]);
    const shown = result().getByRole("region", { name: /^First failing lines/ });
    await shown.getByText("Error: totals differ by 0.01", { exact: true }).waitFor();
    expect((await shown.innerText()).trim().split("\n").slice(0, 4)).toEqual([
      "step 799",
      "step 800",
      "Error: totals differ by 0.01",
      "1",
    ]);
    await page.goto(`${service.url}/ui/task/${taskID}?tab=checks`);
    const log = page.getByRole("region", { name: /^Log of/ });
    const marked = log.getByText("Error: totals differ by 0.01", { exact: true });
    await marked.waitFor();
    const inside = async () => {
      const [pane, line] = [await log.boundingBox(), await marked.boundingBox()];
      return pane !== null && line !== null && line.y >= pane.y && line.y < pane.y + pane.height;
    };
    expect(await inside()).toBe(true);
    expect(await violations(page)).toEqual([]);
    await page.getByRole("button", { name: "Jump to end" }).click();
    expect(await inside()).toBe(false);
    const search = page.getByRole("searchbox", { name: /^Search: Log of/ });
    await search.fill("STEP 29");
    await page.getByText("11 lines", { exact: true }).waitFor();
    await search.press("Enter");
    await page.getByText("1 of 11", { exact: true }).waitFor();
    await search.press("Shift+Enter");
    await page.getByText("11 of 11", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Jump to first error" }).click();
    expect(await inside()).toBe(true);
    await page.getByRole("button", { name: "Wrap lines" }).click();
    // All of them are there, for the browser's own search.
    expect(await log.locator("[data-line]").count()).toBe(1001);
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("link", { name: "Download the log" }).click(),
    ]);
    expect(await download.failure()).toBeNull();
    expect(complaints).toEqual([]);
  });
});
