import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { expect, test } from "vitest";
import { createServiceClient } from "../../src/client/client.ts";
import { makeProject } from "../harness/project.ts";
import type { TestService } from "../harness/service.ts";
import { violations } from "./browser.ts";
import { inBrowser, onStage, viewport } from "./stage.ts";

/** Where somebody is needed: the projects with their numbers, the list by rank, the title and the icon of the tab. */

const question = "Which currency should totals use?";
let service: TestService;
let browser: Browser;
let page: Page;
let complaints: string[] = [];
const root = onStage({
  name: "home",
  model: ({ first, turn }) => {
    if (first.includes("hold")) return { text: "Looking.", hold: true };
    return turn === 0 && first.includes("currency")
      ? { calls: [{ tool: "ask", input: { question, options: ["EUR", "USD"] } }] }
      : { text: "Done." };
  },
  ready: (stage) => void ({ service, browser, page, complaints } = stage),
});

const create = async (directory: string, request: string, checks: string[] = []): Promise<string> => {
  const client = createServiceClient({ baseUrl: service.url, directory });
  const { data } = await client.task.create({ body: { request, title: request, productPillar: "code", checks } });
  return data?.taskID ?? "";
};
const answer = async (directory: string, taskID: string): Promise<void> => {
  const client = createServiceClient({ baseUrl: service.url, directory });
  const { data } = await client.task.status({ path: { taskID } });
  await client.task.answer({
    path: { taskID, askID: data?.pending[0]?.id ?? "" },
    body: { answer: "EUR", source: "test" },
  });
};
const projects = () => page.getByRole("navigation", { name: "Projects" });
const group = (name: string) => page.getByRole("region", { name, exact: true });
const icon = (): Promise<string> => page.evaluate<string>("document.querySelector('link[rel=icon]').href");

inBrowser("where somebody is needed", () => {
  test("from any screen: counts by project, title and icon; all projects in one list, by rank", async () => {
    const billing = makeProject(join(root, "billing"), { "a.txt": "one\n" });
    const website = makeProject(join(root, "website"), { "a.txt": "one\n" });
    await page.goto(`${service.url}/?project=${billing}`);
    const calm = await icon();
    const held = await create(billing, "hold on here");
    const asking = await create(website, "find the currency");
    await create(billing, "look around", ["true"]);
    await projects().getByRole("link", { name: "website 1 need you" }).waitFor();
    await projects().getByRole("link", { name: "billing 1 running" }).waitFor();
    expect(await page.title()).toBe("(1) billing · Sortie");
    expect(await icon()).not.toBe(calm);
    // What another project asks is told here, too.
    await group("Needs you").getByText(question).waitFor();
    await group("Running")
      .getByRole("link", { name: /hold on here Working/ })
      .waitFor();
    await group("Recent")
      .getByRole("link", { name: /look around Completed/ })
      .waitFor();
    expect(await violations(page)).toEqual([]);

    await projects().getByRole("link", { name: "All projects 1 need you 1 running" }).click();
    await page.getByRole("heading", { level: 1, name: "All projects" }).waitFor();
    await group("Needs you")
      .getByRole("link", { name: /find the currency Needs you.*website/ })
      .waitFor();
    expect(await page.getByText(question).count()).toBe(1);
    await group("Recent")
      .getByRole("link", { name: /look around Completed.*billing/ })
      .waitFor();
    expect(await violations(page)).toEqual([]);

    await page.getByRole("link", { name: "Models" }).click();
    await page.getByRole("heading", { level: 1, name: "Models" }).waitFor();
    expect(await page.title()).toBe("(1) Models · Sortie");
    await answer(website, asking);
    await expect.poll(() => page.title(), { timeout: 20_000 }).toBe("Models · Sortie");
    expect(await icon()).toBe(calm);
    await createServiceClient({ baseUrl: service.url, directory: billing }).task.cancel({ path: { taskID: held } });
    expect(complaints).toEqual([]);
  }, 60_000);

  test("twelve Tasks fit a laptop's first screen; the form is one line until it is used; filters wait behind a button", async () => {
    const directory = makeProject(join(root, "many"), { "a.txt": "one\n" });
    for (let index = 1; index <= 13; index += 1) await create(directory, `Task number ${index}`, ["true"]);
    await page.goto(`${service.url}/?project=${directory}`);
    await group("Recent").getByRole("listitem").nth(12).waitFor();
    const height = await page
      .getByRole("form", { name: "New Task" })
      .evaluate((form) => form.getBoundingClientRect().height);
    expect(height).toBeLessThan(100);
    await expect
      .poll(() =>
        group("Recent")
          .getByRole("link")
          .evaluateAll((links) => links.filter((link) => link.getBoundingClientRect().bottom <= 800).length),
      )
      .toBeGreaterThanOrEqual(12);
    expect(await page.getByRole("button", { name: "Start Task" }).count()).toBe(0);
    await page.getByLabel("What should be done").focus();
    await page.getByRole("button", { name: "Start Task" }).waitFor();
    expect(await page.getByLabel("Any state").count()).toBe(0);
    await page.getByRole("button", { name: "Filters" }).click();
    await page.getByLabel("Any state").selectOption("failed");
    await page.getByText("No Task matches these filters.").waitFor();
  }, 60_000);

  test("the form shows what decides: branch, result, checks found, model, squad, budget; a draft outlives a reload", async () => {
    const scripts = { test: "node -e 0", lint: "node -e 0" };
    const directory = makeProject(join(root, "decided"), { "package.json": JSON.stringify({ scripts }) });
    const other = makeProject(join(root, "other"), { "a.txt": "one\n" });
    await create(other, "look around", ["true"]);
    await page.goto(`${service.url}/?project=${directory}`);
    const form = page.getByRole("form", { name: "New Task" });
    await form.getByLabel("What should be done").fill("decide on the currency later");
    const facts = async () => (await form.getByLabel("What decides").innerText()).replaceAll(/\s+/g, " ");
    await form.getByText("npm test, npm run lint").waitFor();
    expect(await facts()).toBe(
      "Branch main Result one commit on the branch Checks npm test, npm run lint Model mock/large Squad base Budget not limited",
    );
    await form.getByRole("button", { name: "Options" }).click();
    await form.getByLabel("Model", { exact: true }).selectOption("builtin/rules-1");
    await form.getByLabel("Effort").selectOption("low");
    await form.getByLabel("Result").selectOption("branch");
    await form.getByLabel("Squad").selectOption("advanced");
    await form.getByLabel("Cost limit").fill("2.5");
    await form.getByLabel("Time limit").fill("10");
    await form.getByLabel("Checks").fill("true");
    expect(await violations(page)).toEqual([]);
    const chosen =
      "Branch main Result on its own branch Checks true Model built-in rules, effort low Squad advanced Budget $2.5, 10 min";
    expect(await facts()).toBe(chosen);
    await page.reload();
    await form.getByText("$2.5, 10 min").waitFor();
    await expect.poll(facts).toBe(chosen);
    expect(await form.getByLabel("What should be done").inputValue()).toBe("decide on the currency later");
    await form.getByLabel("What should be done").fill("dead links");
    await form.getByRole("button", { name: "Start Task" }).click();
    await page.waitForURL(/\/ui\/task\/task_/);
    const taskID = /task_\w+/.exec(page.url())?.[0] ?? "";
    const { data } = await createServiceClient({ baseUrl: service.url, directory }).task.status({ path: { taskID } });
    expect(data).toMatchObject({
      model: "builtin/rules-1",
      landing: "branch",
      squad: { id: "advanced" },
      budget: { maxCostUSD: 2.5, maxMinutes: 10 },
      checks: [{ name: "true", required: true }],
    });
    // What was sent is not offered again; another project is a choice away.
    await page.goto(`${service.url}/?project=${directory}`);
    await form.getByLabel("What should be done").focus();
    await form.getByText("not limited").waitFor();
    expect(await form.getByLabel("What should be done").inputValue()).toBe("");
    await form.getByLabel("Known projects").selectOption(other);
    await page.getByRole("link", { name: /look around/ }).waitFor();
    expect(await form.getByLabel("Project directory").inputValue()).toBe(other);
    expect(complaints).toEqual([]);
  }, 60_000);

  test("a repository's address where none is allowed is told the setting that allows them", async () => {
    await page.goto(service.url);
    await page.getByLabel("Project directory or repository URL").fill("https://example.com/app.git");
    await page.getByLabel("Project directory or repository URL").press("Enter");
    await page.getByRole("alert").getByText('"allow": ["https://*"]').waitFor();
  });

  test("a first question offers notifications; once allowed, one that comes unseen is told, and leads there", async () => {
    const directory = makeProject(join(root, "notified"), { "a.txt": "one\n" });
    const context = await browser.newContext({ reducedMotion: "reduce", viewport });
    context.setDefaultTimeout(15_000);
    // What the browser shows is outside of the page: the page notes what it hands over.
    await context.addInitScript(`
      window.told = [];
      window.Notification = class extends Notification {
        constructor(title, options) { super(title, options); window.told.push(this); }
      };
      Object.defineProperty(document, "hidden", { get: () => window.away === true });`);
    const own = await context.newPage();
    const bar = own.getByRole("region", { name: "Notifications" });
    const told = () => own.evaluate<string[]>("window.told.map(({ title, body }) => title + ' / ' + body)");
    await own.goto(`${service.url}/?project=${directory}`);
    await own.getByRole("heading", { level: 1 }).first().waitFor();
    expect(await bar.count()).toBe(0);
    const first = await create(directory, "which currency, first");
    await bar.getByRole("button", { name: "Notify me" }).waitFor();
    expect(await violations(own)).toEqual([]);
    expect(await told()).toEqual([]);
    await context.grantPermissions(["notifications"], { origin: service.url });
    await bar.getByRole("button", { name: "Notify me" }).click();
    await own.getByText("Notifications are on").waitFor();
    expect(await bar.count()).toBe(0);
    // Seen already, and seen while the page is looked at: neither is told.
    const second = await create(directory, "which currency, second");
    await own
      .getByRole("link", { name: /^.*which currency, second/ })
      .getByText(question)
      .waitFor();
    await own.evaluate("window.away = true");
    const third = await create(directory, "which currency, third");
    await expect.poll(told, { timeout: 15_000 }).toEqual([`which currency, third / notified: ${question}`]);
    await own.evaluate("window.told[0].dispatchEvent(new Event('click'))");
    await own.waitForURL((url) => url.pathname === `/ui/task/${third}`);
    for (const taskID of [first, second, third]) await answer(directory, taskID);
    await context.close();
  });

  test("who does not want them is not asked again", async () => {
    const directory = makeProject(join(root, "quiet"), { "a.txt": "one\n" });
    const taskID = await create(directory, "which currency now");
    const context = await browser.newContext({ reducedMotion: "reduce" });
    const own = await context.newPage();
    const bar = own.getByRole("region", { name: "Notifications" });
    await own.goto(`${service.url}/?project=${directory}`);
    await bar.getByRole("button", { name: "No", exact: true }).click();
    await bar.waitFor({ state: "detached" });
    await own.reload();
    await own.getByRole("region", { name: "Needs you" }).waitFor();
    await own.waitForTimeout(300);
    expect(await bar.count()).toBe(0);
    await answer(directory, taskID);
    await context.close();
  });
});
