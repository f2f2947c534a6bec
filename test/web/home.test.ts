import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServiceClient } from "../../src/client/client.ts";
import { browserHere, countBlind } from "../harness/browser.ts";
import { built } from "../harness/built.ts";
import { type MockProvider, startMockProvider } from "../harness/double/mock-provider.ts";
import { makeProject, temporary } from "../harness/project.ts";
import { startService, type TestService } from "../harness/service.ts";
import { launch, violations, watch } from "./browser.ts";

/** Where somebody is needed: the projects with their numbers, the list by rank, the title and the icon of the tab. */

if (browserHere === undefined) countBlind(4);

const root = temporary("sortie-web-home-");
let provider: MockProvider;
let service: TestService;
let browser: Browser;
let page: Page;
let complaints: string[] = [];

const question = "Which currency should totals use?";

beforeAll(async () => {
  if (browserHere === undefined) return;
  await built();
  provider = await startMockProvider(({ first, turn }) => {
    if (first.includes("hold")) return { text: "Looking.", hold: true };
    return turn === 0 && first.includes("currency")
      ? { calls: [{ tool: "ask", input: { question, options: ["EUR", "USD"] } }] }
      : { text: "Done." };
  });
  const config = join(root.path, "config.jsonc");
  const providers = { mock: { kind: "openai-compatible", baseURL: provider.baseURL, apiKey: "none" } };
  writeFileSync(config, JSON.stringify({ providers, model: "mock/large" }));
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
  browser = await launch();
  const context = await browser.newContext({ reducedMotion: "reduce", viewport: { width: 1280, height: 800 } });
  context.setDefaultTimeout(15_000);
  page = await context.newPage();
  complaints = watch(page, service.url);
}, 150_000);
afterAll(async () => {
  await browser?.close();
  provider?.release();
  await service?.[Symbol.asyncDispose]();
  await provider?.close();
  root[Symbol.dispose]();
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

describe.skipIf(browserHere === undefined)("where somebody is needed", () => {
  test("from any screen: counts by project, title and icon; all projects in one list, by rank", async () => {
    const billing = makeProject(join(root.path, "billing"), { "a.txt": "one\n" });
    const website = makeProject(join(root.path, "website"), { "a.txt": "one\n" });
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
    const directory = makeProject(join(root.path, "many"), { "a.txt": "one\n" });
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

  test("a first question offers notifications; once allowed, one that comes unseen is told, and leads there", async () => {
    const directory = makeProject(join(root.path, "notified"), { "a.txt": "one\n" });
    const context = await browser.newContext({ reducedMotion: "reduce", viewport: { width: 1280, height: 800 } });
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
    const directory = makeProject(join(root.path, "quiet"), { "a.txt": "one\n" });
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
