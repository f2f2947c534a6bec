import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createServiceClient } from "../../src/client/client.ts";
import { git, makeProject, readText, writeFiles } from "../harness/project.ts";
import { unpack } from "../harness/zip-reader.ts";
import { startService, type TestService } from "../harness/service.ts";
import { type Line, openLine, violations, watch } from "./browser.ts";
import { inBrowser, onStage } from "./stage.ts";

/** Somebody's road through the page, in a real browser, against a real service. */

let service: TestService;
let browser: Browser;
let page: Page;
let complaints: string[] = [];
let count = 0;
/** One page for all tests but those that need one of their own; it remembers nothing of the test before. */
let shared: { page: Page; complaints: string[] } | undefined;
const root = onStage({
  name: "page",
  model: (request) => {
    if (request.first.includes("hold"))
      return request.turn === 0 ? { text: "Looking around.", hold: true } : { text: "Done." };
    return request.turn === 0
      ? { calls: [{ tool: "shell", input: { command: "echo said; exit 3" } }] }
      : { text: "**Done**, <b>really</b>." };
  },
  config: () => ({ model: "builtin/rules-1", limits: { checkRounds: 0 } }),
  ready: (stage) => void ({ service, browser, ...shared } = stage),
});

const open = async (url = service.url, options: Parameters<Browser["newContext"]>[0] = {}): Promise<Page> => {
  const context: BrowserContext = await browser.newContext({ reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(10_000);
  page = await context.newPage();
  complaints = watch(page, url);
  return page;
};
beforeEach(async () => {
  if (shared === undefined) return;
  ({ page, complaints } = shared);
  complaints.length = 0;
  if (page.url().startsWith("http")) await page.evaluate("localStorage.clear()");
});
afterEach(async () => {
  if (shared !== undefined && page !== shared.page) await page.context().close();
});

const project = (files: Record<string, string> = { "a.txt": "one\n" }): string =>
  makeProject(join(root, `project-${(count += 1)}`), files);

const heading = (name: string | RegExp) => page.getByRole("heading", { level: 1, name });
const state = (word: string) => page.getByRole("region", { name: "The Task" }).getByText(word, { exact: true });
const tab = (name: string) => page.getByRole("tab", { name });

/** Begins a Task on the first screen, as somebody who never was here. */
const compose = async (directory: string, request: string, { checks = [] as string[], model = "" } = {}) => {
  await page.goto(service.url);
  await page.getByLabel("Project directory").fill(directory);
  await page.getByLabel("Project directory").press("Enter");
  await page.getByLabel("What should be done").fill(request);
  if (checks.length > 0 || model !== "") {
    await page.getByRole("button", { name: "Options" }).click();
    await page.getByLabel("Checks").fill(checks.join("\n"));
    if (model !== "") await page.getByLabel("Model", { exact: true }).selectOption(model);
  }
  await page.getByRole("button", { name: "Start Task" }).click();
  await page.waitForURL(/\/ui\/task\/task_/);
};
const currentTask = () => /task_\w+/.exec(page.url())?.[0] ?? "";

inBrowser("the page", () => {
  test("a new user is told what works, and tries it with one press", async () => {
    const directory = project({ "package.json": '{ "scripts": { "test": "node -e 0" } }' });
    await page.goto(service.url);
    await heading("Connect a model").waitFor();
    await page.getByRole("heading", { name: "Works without a model" }).waitFor();
    await page.getByRole("button", { name: /^run the tests and report/ }).click();
    expect(await page.getByLabel("What should be done").inputValue()).toBe("run the tests and report");
    await page.getByRole("button", { name: "Start Task" }).click();
    await page.getByText("Choose a project first").waitFor();
    await page.getByLabel("Project directory").fill(directory);
    await page.getByRole("button", { name: "Start Task" }).click();
    await page
      .getByRole("button", { name: "Start Task" })
      .click({ timeout: 1000 })
      .catch(() => {});
    await state("Completed").waitFor();
  });

  test("a Task from the first words to the ZIP: its checks, its diff, its events", async () => {
    const directory = project({ "a.txt": "one\n", "b.txt": "one\n" });
    await compose(directory, 'replace "one" with "two" in a.txt', { checks: ["grep -q two a.txt"] });
    await state("Completed").waitFor();
    expect(readText(directory, "a.txt")).toBe("two\n");
    await tab("Conversation").click();
    await page.getByRole("log").getByText("Landed").first().waitFor();

    await tab("Changes").click();
    const diff = page.getByRole("region", { name: "Changes of a.txt" });
    await diff.getByText("two").waitFor();
    expect((await diff.innerText()).replaceAll(/\s+/g, " ")).toMatch(/one.*two/);

    await tab("Checks").click();
    await page.getByRole("button", { name: /grep -q two a.txt passed/ }).click();
    await page.getByText("No output", { exact: true }).waitFor();

    await tab("Topology").click();
    await page
      .getByTestId("topology")
      .getByRole("button", { name: /orchestrator ended/i })
      .waitFor();

    await tab("Events").click();
    await page.getByRole("button", { name: /task\.settled/ }).click();
    await page.getByText('"lifecycleStatus": "completed"').waitFor();

    const downloading = page.waitForEvent("download");
    await page.getByRole("link", { name: "Download archive" }).click();
    const zip = await readFile(await (await downloading).path());
    const files = unpack(zip);
    expect(String(files.get("project/a.txt"))).toBe("two\n");
    expect([...files.keys()]).toContain("execution-flow/manifest.json");
    expect(complaints).toEqual([]);
  });

  test("a check that fails is shown with its log, and nothing lands; after a message it passes, and all lands", async () => {
    const directory = project();
    await compose(directory, 'replace "one" with "two" in a.txt', {
      checks: ["grep three a.txt || { echo not good enough; exit 7; }"],
    });
    await state("Failed").waitFor();
    await tab("Checks 1 of 1 failed").click();
    await page.getByText("exit 7", { exact: true }).waitFor();
    await page
      .getByRole("region", { name: /^Log of/ })
      .getByText("not good enough")
      .waitFor();
    expect(readText(directory, "a.txt")).toBe("one\n");

    await page.getByLabel("Send a message to continue this Task").fill('replace "two" with "three" in a.txt');
    await page.getByRole("button", { name: "Continue" }).click();
    await state("Completed").waitFor();
    await page.getByRole("button", { name: /^grep three .* passed/ }).waitFor();
    expect(readText(directory, "a.txt")).toBe("three\n");
  });

  test("what a model says, does and is asked further; the conversation is no place for markup", async () => {
    await compose(project(), "look", { model: "mock/large" });
    await state("Completed").waitFor();
    await tab("Conversation").click();
    const log = page.getByRole("log");
    await log.getByText("<b>really</b>").first().waitFor();
    expect(await log.locator("b").count()).toBe(0);
    const call = log.getByRole("button", { name: /shell echo said; exit 3 exit 3/ });
    await call.click();
    await log.getByRole("region", { name: "Output" }).getByText("said").waitFor();

    await page.getByLabel("Send a message to continue this Task").fill("And again, please.");
    await page.getByRole("button", { name: "Continue" }).click();
    await log.getByText("And again, please.").waitFor();
    await state("Completed").waitFor();
    expect(await log.getByRole("article", { name: /^orchestrator/ }).count()).toBeGreaterThan(2);
    expect(complaints).toEqual([]);
  });

  test("a running Task: what waits to be read is shown, and a cancel gives its reason", async () => {
    await compose(project(), "hold on", { model: "mock/large" });
    await state("Working").waitFor();
    await page.getByLabel("Send a message to this Task").fill("One more thing.");
    await page.getByLabel("Send a message to this Task").press("Control+Enter");
    await page.getByRole("list", { name: "Not read yet" }).getByText("One more thing.").waitFor();
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    await page.getByLabel("Reason, shown with the Task").fill("changed my mind");
    await page.getByRole("button", { name: "Cancel the Task" }).click();
    await state("Cancelled").waitFor();
    await page.getByRole("region", { name: "Result" }).getByText("changed my mind").waitFor();
  });

  test("the list follows by itself what happens elsewhere, and filters live in the address", async () => {
    const directory = project();
    const client = createServiceClient({ baseUrl: service.url, directory });
    await page.goto(`${service.url}/?project=${directory}`);
    await page.getByText("Works without a model").waitFor();
    await client.task.create({
      body: { request: "run the checks", title: "Made by curl", productPillar: "code", checks: ["true"] },
    });
    await page.getByRole("link", { name: /Made by curl Completed/ }).waitFor();
    await page.getByRole("button", { name: "Filters" }).click();
    await page.getByLabel("Any state").selectOption("failed");
    await page.getByText("No Task matches these filters.").waitFor();
    expect(page.url()).toContain("state=failed");
    await page.reload();
    await page.getByText("No Task matches these filters.").waitFor();
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await page.getByRole("button", { name: "Board", exact: true }).click();
    await page
      .getByRole("region", { name: "Done" })
      .getByRole("link", { name: /Made by curl/ })
      .waitFor();
  });

  test("a directory that is none says so where it was given", async () => {
    await page.goto(service.url);
    await page.getByLabel("Project directory").fill("/nowhere/at/all");
    await page.getByLabel("Project directory").press("Enter");
    await page.getByRole("alert").getByText("/nowhere/at/all").waitFor();
  });

  test("an address without a screen, and a Task that does not exist, lead back to the Tasks", async () => {
    for (const [path, words] of [
      ["/ui/nowhere", "Page not found"],
      ["/ui/task/task_01jzzzzzzzzzzzzzzzzzzzzzzz", "Task not found"],
    ] as const) {
      await page.goto(service.url + path);
      await page.getByRole("heading", { name: words }).waitFor();
      expect(await page.getByRole("button", { name: "Try again" }).count()).toBe(0);
      await page.locator("main").getByRole("link", { name: "Back to Tasks" }).click();
      await page.getByRole("form", { name: "New Task" }).waitFor();
    }
  });

  test("a Task is duplicated: its request stands in the form, to be changed and sent again", async () => {
    const directory = project();
    const client = createServiceClient({ baseUrl: service.url, directory });
    const { data } = await client.task.create({ body: { request: "dead links", productPillar: "code" } });
    await page.goto(`${service.url}/?project=${project()}`);
    await page.goto(`${service.url}/ui/task/${data?.taskID}`);
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Duplicate" }).click();
    const form = page.getByRole("form", { name: "New Task" });
    await form.waitFor();
    await expect.poll(() => form.getByLabel("What should be done").inputValue()).toBe("dead links");
    // In its own project, whichever was looked at last.
    expect(await form.getByLabel("Project directory").inputValue()).toBe(directory);
    await form.getByLabel("What should be done").fill("");
  });

  test("a folder without Git is worked in only after a yes, and the end says what is not known", async () => {
    const directory = join(root, "no-git");
    writeFiles(directory, { "a.txt": "one\n" });
    await page.goto(`${service.url}/?project=${encodeURIComponent(directory)}`);
    const agree = page.getByLabel("Work in place");
    await agree.waitFor();
    await page.getByLabel("What should be done").fill('replace "one" with "two" in a.txt');
    await page.getByRole("button", { name: "Start Task" }).click();
    await page.getByText("or choose to work in place").waitFor();
    expect(readText(directory, "a.txt")).toBe("one\n");
    await agree.check();
    await page.getByRole("button", { name: "Start Task" }).click();
    await state("Completed, not verified").waitFor();
    expect(readText(directory, "a.txt")).toBe("two\n");
  });

  test("a lost connection is told with the time of what is shown, and the page catches up", async () => {
    const directory = project();
    await using line: Line = await openLine(service.url);
    await open(line.url);
    const client = createServiceClient({ baseUrl: service.url, directory });
    const { data } = await client.task.create({
      body: { request: "hold the line", productPillar: "code", model: "mock/large" },
    });
    await page.goto(`${line.url}/ui/task/${data?.taskID}`);
    await state("Working").waitFor();
    line.cut();
    await page
      .getByTestId("lost")
      .getByText(/^Connection lost, retrying in \d+ s\. Showing the state as of \d\d:\d\d:\d\d\.$/)
      .waitFor();
    await client.task.message({
      path: { taskID: data?.taskID ?? "" },
      body: { source: "api", text: "Said in between" },
    });
    line.mend();
    await page.getByRole("log").getByText("Said in between").waitFor();
    await page.getByTestId("lost").waitFor({ state: "detached" });
    await client.task.cancel({ path: { taskID: data?.taskID ?? "" } });
    await state("Cancelled").waitFor();
  });

  test("behind a password nothing is shown without it, and everything with it", async () => {
    const password = "correct horse battery";
    await using guarded = await startService(join(root, "guarded"), { SERVICE_SERVER_PASSWORD: password });
    for (const path of ["/", "/ui/squads", "/assets/x.js"]) expect((await fetch(guarded.url + path)).status).toBe(401);
    await open(guarded.url);
    expect((await page.goto(`${guarded.url}/ui/squads`))?.status()).toBe(401);
    expect(await violations(page)).toEqual([]);
    await page.emulateMedia({ colorScheme: "dark" });
    expect(await violations(page, ["color-contrast"])).toEqual([]);
    await page.getByLabel("Password").fill("wrong");
    await page.getByLabel("Password").press("Enter");
    await page.getByRole("alert").getByText("Wrong name or password.").waitFor();
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("link", { name: /advanced/i }).waitFor();
    expect(new URL(page.url()).pathname).toBe("/ui/squads");
    await page.goto(`${guarded.url}/?project=${project()}`);
    await page.getByLabel("What should be done").fill("run the checks");
    await page.getByLabel("What should be done").press("Control+Enter");
    await page.waitForURL(/\/ui\/task\/task_/);
    await page.getByRole("region", { name: "The Task" }).waitFor();
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByRole("heading", { name: "Log in to Sortie" }).waitFor();
    // Whoever has the credentials from elsewhere needs no form.
    await open(guarded.url, {
      extraHTTPHeaders: { authorization: `Basic ${btoa(`service:${password}`)}` },
    });
    await page.goto(`${guarded.url}/ui/squads`);
    await page.getByRole("link", { name: /advanced/i }).waitFor();
    expect(await page.getByRole("button", { name: "Log out" }).count()).toBe(0);
    expect(complaints).toEqual([]);
  });

  test("by the keyboard alone: help, palette, list, tabs and back", async () => {
    const directory = project();
    const client = createServiceClient({ baseUrl: service.url, directory });
    for (const title of ["First Task", "Second Task"]) {
      const { data } = await client.task.create({
        body: { request: "run the checks", title, productPillar: "code", checks: ["true"] },
      });
      await client.task.wait({ path: { taskID: data?.taskID ?? "" } });
    }
    await page.goto(`${service.url}/?project=${directory}`);
    await page.getByRole("link", { name: /Second Task Completed/ }).waitFor();
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog", { name: "Keyboard" }).waitFor({ state: "hidden" });
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await heading("First Task").waitFor();
    await page.keyboard.press("5");
    await page.getByRole("region", { name: "Events" }).waitFor();
    await page.keyboard.press("2");
    await page.getByText("Nothing changed").first().waitFor();
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Go to a screen or Task" }).fill("squads");
    await page.keyboard.press("Enter");
    await heading("Squads").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("link", { name: /Second Task/ }).waitFor();
    await page.keyboard.press("f");
    await page.keyboard.type("first");
    await page.getByRole("link", { name: /Second Task/ }).waitFor({ state: "detached" });
    await page.keyboard.press("Escape");
    await page.keyboard.press("c");
    await page.keyboard.type("run the checks");
    await page.keyboard.press("Control+Enter");
    await page.waitForURL(/\/ui\/task\/task_/);
    expect(currentTask()).toMatch(/^task_/);
  });

  test("the log in pages is the log, and projects are listed with what they have", async () => {
    const directory = project();
    const client = createServiceClient({ baseUrl: service.url, directory });
    const { data } = await client.task.create({
      body: { request: "run the checks", productPillar: "code", checks: ["true"] },
    });
    const taskID = data?.taskID ?? "";
    await client.task.wait({ path: { taskID } });
    const first = await client.task.eventPage({ path: { taskID }, query: { limit: 2 } });
    const rest = await client.task.eventPage({ path: { taskID }, query: { after: first.data?.nextAfter ?? 0 } });
    expect([...(first.data?.events ?? []), ...(rest.data?.events ?? [])].map(({ type }) => type)).toEqual(
      expect.arrayContaining(["task.created", "check.finished", "task.settled"]),
    );
    expect((await client.task.eventPage({ path: { taskID: "task_none" } })).error).toMatchObject({ status: 404 });
    const { data: projects } = await client.project.list();
    expect(projects?.[0]).toMatchObject({ directory, tasks: 1, active: 0 });
  });

  test("between two commits of a Task, and of no others, the difference is told", async () => {
    const directory = project();
    const client = createServiceClient({ baseUrl: service.url, directory });
    const { data } = await client.task.create({
      body: { request: 'replace "one" with "two" in a.txt', productPillar: "code" },
    });
    const taskID = data?.taskID ?? "";
    const { data: status } = await client.task.wait({ path: { taskID } });
    const from = status?.git.baseCommit ?? "";
    const to = status?.git.landedCommit ?? "";
    expect(String((await client.task.diff({ path: { taskID }, query: { from, to }, parseAs: "text" })).data)).toContain(
      "+two",
    );
    const other = git(directory, "rev-parse", "HEAD^{tree}");
    expect((await client.task.diff({ path: { taskID }, query: { from, to: other } })).response?.status).toBe(404);
    expect((await client.task.diff({ path: { taskID }, query: { from } })).response?.status).toBe(400);
  });
});
