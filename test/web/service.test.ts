import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServiceClient } from "../../src/client/client.ts";
import { browserHere, countBlind } from "../harness/browser.ts";
import { built } from "../harness/built.ts";
import { makeProject, temporary } from "../harness/project.ts";
import { type MockProvider, type MockTurn, startMockProvider } from "../harness/double/mock-provider.ts";
import { type Receiver, startReceiver } from "../harness/receiver.ts";
import { startService, type TestService } from "../harness/service.ts";
import { launch, violations, watch } from "./browser.ts";

/** What the page can do with the service itself: try a model, tell others. */

if (browserHere === undefined) countBlind(2);

const root = temporary("sortie-web-service-");
let provider: MockProvider;
let receiver: Receiver;
let service: TestService;
let browser: Browser;
let page: Page;
let complaints: string[] = [];
let says: MockTurn = {};
/** What who is told answers. */
let status = 204;

beforeAll(async () => {
  if (browserHere === undefined) return;
  await built();
  provider = await startMockProvider(() => says);
  receiver = await startReceiver((_, response) => response.writeHead(status).end());
  const config = join(root.path, "config.jsonc");
  const mock = {
    kind: "openai-compatible",
    name: "Mock",
    baseURL: provider.baseURL,
    apiKey: "none",
    models: ["large"],
  };
  const webhooks = { allow: ["127.0.0.1"] };
  writeFileSync(config, JSON.stringify({ providers: { mock }, model: "builtin/rules-1", webhooks }));
  service = await startService(join(root.path, "data"), { SERVICE_CONFIG: config });
  browser = await launch();
  page = await browser.newPage({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce" });
  page.setDefaultTimeout(10_000);
  complaints = watch(page, service.url);
}, 150_000);
afterAll(async () => {
  await browser?.close();
  await service?.[Symbol.asyncDispose]();
  await receiver?.[Symbol.asyncDispose]();
  await provider?.close();
  root[Symbol.dispose]();
});

describe.skipIf(browserHere === undefined)("the service, by the page", () => {
  test("a model is tried at the press of a button: it works, it has no tools, it refuses the key", async () => {
    await page.goto(`${service.url}/ui/models`);
    const models = page.getByRole("list", { name: "Models of Mock" });
    says = { calls: [{ tool: "report", input: { word: "ready" } }], usage: { input: 61, output: 9 } };
    await models.getByRole("button", { name: "Test mock/large" }).click();
    await models.getByText("Answers, and tools work").waitFor();
    await models.getByText(/^First word after .* in all · 61 tokens in, 9 out · cost unknown$/).waitFor();
    says = { text: "I am ready." };
    await models.getByRole("button", { name: "Test mock/large" }).click();
    await models.getByText(/did not call the tool: agents cannot work without tools/).waitFor();
    says = { fail: { status: 401, message: "no" } };
    await page.getByLabel("Name of a model").fill("mock/other");
    await page.getByLabel("Name of a model").press("Enter");
    await page
      .getByRole("region", { name: "Another model" })
      .getByText(/^mock refused the key/)
      .waitFor();
    await page.getByLabel("Name of a model").fill("nobody/large");
    await page.getByLabel("Name of a model").press("Enter");
    await page.getByText(/No provider "nobody"/).waitFor();
    expect(await violations(page)).toEqual([]);
    expect(complaints).toEqual([]);
  });

  test("a webhook is added, its secret shown once, tried, told, paused and deleted", async () => {
    await page.goto(`${service.url}/ui/webhooks`);
    await page.getByText("No webhooks yet").waitFor();
    await page.getByLabel("Address").fill(receiver.url);
    await page.getByLabel("Description").fill("Chat");
    await page.getByRole("button", { name: "Add webhook" }).click();
    await page.getByText(/^whsec_/).waitFor();
    const hooks = page.getByRole("list", { name: "Webhooks" });
    await hooks.getByText("Enabled", { exact: true }).waitFor();
    await hooks.getByRole("button", { name: "Test" }).click();
    await hooks.getByText(/^It took the test message: 204 in/).waitFor();
    expect(receiver.types()).toEqual(["webhook.test"]);
    const directory = makeProject(join(root.path, "project"), { "a.txt": "one\n" });
    const client = createServiceClient({ baseUrl: service.url, directory });
    await client.task.create({ body: { request: "dead links", productPillar: "code" } });
    const latest = page.getByRole("region", { name: "Latest" });
    await latest.getByText("task.completed").waitFor();
    await latest.getByText("Delivered", { exact: true }).first().waitFor();
    expect(await violations(page)).toEqual([]);
    await page.setViewportSize({ width: 360, height: 640 });
    expect(await page.evaluate<number>("document.querySelector('main').scrollWidth")).toBeLessThanOrEqual(360);
    await page.setViewportSize({ width: 1280, height: 900 });
    // One that is gone for good is left alone; what could not be told is told again on request.
    status = 410;
    await client.task.create({ body: { request: "dead links", productPillar: "code" } });
    await hooks.getByText("Disabled", { exact: true }).waitFor();
    const dead = page.getByRole("region", { name: "Not told" });
    await dead.getByText("Not told", { exact: true }).first().waitFor();
    expect(await violations(page)).toEqual([]);
    status = 204;
    await hooks.getByRole("button", { name: "Enable" }).click();
    await hooks.getByText("Enabled", { exact: true }).waitFor();
    await dead.getByRole("button", { name: "Tell all again" }).click();
    await dead.waitFor({ state: "detached" });
    await page.reload();
    await hooks.getByText("Enabled", { exact: true }).waitFor();
    expect(await page.getByText(/whsec_/).count()).toBe(0);
    await hooks.getByRole("button", { name: "Pause" }).click();
    await hooks.getByText("Paused", { exact: true }).waitFor();
    await hooks.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("No webhooks yet").waitFor();
    expect(complaints).toEqual([]);
  });
});
