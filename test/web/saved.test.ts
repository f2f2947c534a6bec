import { join } from "node:path";
import type { Page, Route } from "playwright-core";
import { expect, test } from "vitest";
import { createServiceClient } from "../../src/client/client.ts";
import { makeProject, writeFiles } from "../harness/project.ts";
import type { TestService } from "../harness/service.ts";
import { violations } from "./browser.ts";
import { inBrowser, onStage } from "./stage.ts";

/** Saved requests in the form for a new Task: what of them the service receives, whenever their list comes. */

let service: TestService;
let page: Page;
let complaints: string[] = [];
const root = onStage({
  name: "saved",
  model: () => ({ text: "Done." }),
  config: () => ({ repositories: { allow: ["https://*"] } }),
  ready: (stage) => void ({ service, page, complaints } = stage),
});

const files = {
  "a.txt": "one\n",
  ".claude/commands/fix.md": "---\ndescription: Fixes an issue\nargument-hint: <issue> <how>\n---\nFix issue $1, $2.\n",
  ".claude/commands/docs/add.md": "About $ARGUMENTS\n",
};
const list = "**/project/requests*";
const form = () => page.getByRole("form", { name: "New Task" });
const text = () => form().getByLabel("What should be done");
const start = () => form().getByRole("button", { name: "Start Task" });
const asItStands = () => form().getByRole("button", { name: "Send the text as it stands" });
const alert = () => form().getByRole("alert");

/** A project of its own, with the form open on it. */
const open = async (name: string): Promise<string> => {
  const directory = makeProject(join(root, name), files);
  await page.goto(`${service.url}/?project=${directory}`);
  await text().fill("");
  await form().getByText("Branch", { exact: true }).waitFor();
  return directory;
};
const requestsIn = async (directory: string): Promise<string[]> => {
  const client = createServiceClient({ baseUrl: service.url, directory });
  const { data = [] } = await client.task.list({});
  return Promise.all(
    data.map(async ({ taskID }) => (await client.task.get({ path: { taskID } })).data?.request ?? "nothing"),
  );
};
const sent = async (directory: string): Promise<string[]> => {
  await page.waitForURL(/\/ui\/task\/task_/);
  return requestsIn(directory);
};
const intercept = async (handle: (route: Route) => Promise<void>): Promise<AsyncDisposable> => {
  await page.route(list, handle);
  return { [Symbol.asyncDispose]: () => page.unroute(list) };
};

inBrowser("saved requests", () => {
  test("one is chosen from the list and filled in; the service receives its text", async () => {
    const directory = await open("chosen");
    await text().fill("/");
    const offered = form().getByRole("list", { name: "Saved requests of the project" });
    await offered.getByRole("button").nth(1).waitFor();
    expect(await offered.getByRole("button").allInnerTexts()).toEqual([
      expect.stringContaining("/docs:add"),
      expect.stringContaining("/fix"),
    ]);
    expect(await violations(page)).toEqual([]);
    await text().fill("/fi");
    await offered.getByRole("button").click();
    expect(await text().inputValue()).toBe("/fix ");
    await page.keyboard.type('42 "in a day"');
    expect(await offered.count()).toBe(0);
    await start().click();
    expect(await sent(directory)).toEqual(["Fix issue 42, in a day."]);
    expect(complaints).toEqual([]);
  }, 60_000);

  test("by the keyboard alone", async () => {
    const directory = await open("keyboard");
    await text().focus();
    await page.keyboard.type("/d");
    await form().getByRole("list", { name: "Saved requests of the project" }).waitFor();
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.keyboard.type("the keyboard");
    await page.keyboard.press("Control+Enter");
    expect(await sent(directory)).toEqual(["About the keyboard"]);
  }, 60_000);

  test("what is sent before the list was read waits for it, and says so", async () => {
    const directory = await open("early");
    const held = Promise.withResolvers<void>();
    await using _ = await intercept(async (route) => {
      await held.promise;
      await route.continue();
    });
    await text().fill("/fix 42 soon");
    await page.keyboard.press("Control+Enter");
    await form().getByRole("status").getByText("It is sent as soon as").waitFor();
    expect(await violations(page)).toEqual([]);
    // A second time, as the impatient do.
    await page.keyboard.press("Control+Enter");
    expect(await requestsIn(directory)).toEqual([]);
    held.resolve();
    expect(await sent(directory)).toEqual(["Fix issue 42, soon."]);
  }, 60_000);

  test("a text that changes while the list is waited for is not sent", async () => {
    const directory = await open("changed");
    const held = Promise.withResolvers<void>();
    await using _ = await intercept(async (route) => {
      await held.promise;
      await route.continue().catch(() => {});
    });
    await text().fill("/fix 42");
    await page.keyboard.press("Control+Enter");
    const waits = form().getByText("It is sent as soon as");
    await waits.waitFor();
    await text().fill("/fix 421");
    await waits.waitFor({ state: "detached" });
    held.resolve();
    await start().click();
    expect(await sent(directory)).toEqual(["Fix issue 421, ."]);
  }, 60_000);

  test("a list that fails is told; the text as it stands is sent only where somebody wants that", async () => {
    const directory = await open("failing");
    let fails = true;
    const body = JSON.stringify({ status: 500, code: "internal_error", message: "The disk is gone." });
    await using _ = await intercept((route) =>
      fails ? route.fulfill({ status: 500, contentType: "application/json", body }) : route.continue(),
    );
    await text().fill("/fix 42 soon");
    await start().click();
    await alert().getByText("The project's saved requests could not be read. The disk is gone.").waitFor();
    expect(await violations(page)).toEqual([]);
    expect(await requestsIn(directory)).toEqual([]);
    await asItStands().click();
    expect(await sent(directory)).toEqual(["/fix 42 soon"]);
    await page.goto(`${service.url}/?project=${directory}`);
    await text().fill("/fix 43 later");
    await start().click();
    await alert().waitFor();
    fails = false;
    await start().click();
    await expect.poll(() => requestsIn(directory)).toEqual(["Fix issue 43, later.", "/fix 42 soon"]);
  }, 60_000);

  test("a list that never comes is waited for ten seconds", async () => {
    const directory = await open("never");
    const held = Promise.withResolvers<void>();
    await using _ = await intercept(async (route) => {
      await held.promise;
      await route.abort().catch(() => {});
    });
    await text().fill("/fix 42");
    await start().click();
    await alert().getByText("They did not come within 10 seconds.").waitFor();
    expect(await requestsIn(directory)).toEqual([]);
    await asItStands().click();
    expect(await sent(directory)).toEqual(["/fix 42"]);
    held.resolve();
  }, 60_000);

  test("a name that there is not, and none at all, are told with those that there are; a path is no call", async () => {
    const directory = await open("unknown");
    await text().fill("/other 42");
    await start().click();
    await alert().getByText('(.claude/commands: /docs:add, /fix), got "/other".').waitFor();
    expect(await asItStands().count()).toBe(0);
    await text().fill("/");
    expect(await alert().count()).toBe(0);
    await page.keyboard.press("Control+Enter");
    await alert().getByText('(.claude/commands: /docs:add, /fix), got "/".').waitFor();
    expect(await requestsIn(directory)).toEqual([]);
    await text().fill("/etc/hosts has a typo");
    await start().click();
    expect(await sent(directory)).toEqual(["/etc/hosts has a typo"]);
  }, 60_000);

  test("what has changed since the list was offered is sent as it is now", async () => {
    const directory = await open("stale");
    await text().fill("/fix");
    await form().getByRole("list", { name: "Saved requests of the project" }).waitFor();
    writeFiles(directory, { ".claude/commands/fix.md": "Repair issue $1.\n" });
    await text().fill("/fix 7");
    await start().click();
    expect(await sent(directory)).toEqual(["Repair issue 7."]);
  }, 60_000);

  test("at a repository's address there are none, which is told", async () => {
    await page.goto(`${service.url}/?project=${encodeURIComponent("https://example.invalid/app.git")}`);
    await text().fill("/fix 42");
    await start().click();
    await alert().getByText("Saved requests are read in a folder, not at a repository's address.").waitFor();
    await asItStands().waitFor();
  }, 60_000);
});
