import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { createServiceClient } from "../../src/client/client.ts";
import { compileCache } from "../harness/built.ts";
import { makeProject } from "../harness/project.ts";
import type { MockTurn } from "../harness/double/mock-provider.ts";
import { type Receiver, startReceiver } from "../harness/receiver.ts";
import { startService, type TestService } from "../harness/service.ts";
import { violations, watch } from "./browser.ts";
import { inBrowser, onStage, viewport } from "./stage.ts";

/** What the page can do with the service itself: try a model, tell others. */

const home = fileURLToPath(new URL("../../bin/sortie.js", import.meta.url));

let receiver: Receiver;
let service: TestService;
let page: Page;
let complaints: string[] = [];
let says: MockTurn = {};
/** What who is told answers. */
let status = 204;
const root = onStage({
  name: "service",
  height: 900,
  model: () => says,
  config: (_, { baseURL }) => {
    const mock = { kind: "openai-compatible", name: "Mock", baseURL, apiKey: "none", models: ["large"] };
    const limits = { breakerFailures: 2 };
    return { providers: { mock }, model: "builtin/rules-1", webhooks: { allow: ["127.0.0.1"] }, limits };
  },
  async ready(stage) {
    ({ service, page, complaints } = stage);
    receiver = await startReceiver((_, response) => response.writeHead(status).end());
  },
  end: () => receiver?.[Symbol.asyncDispose](),
});

inBrowser("the service, by the page", () => {
  test("a model is tried at the press of a button: it works, it has no tools, it refuses the key", async () => {
    await page.goto(`${service.url}/ui/models`);
    const models = page.getByRole("list", { name: "Models of Mock" });
    says = { calls: [{ tool: "report", input: { word: "ready" } }], usage: { input: 61, output: 9 } };
    await models.getByRole("button", { name: "Test mock/large" }).click();
    await models.getByText("It responds, and tool calls work").waitFor();
    await models.getByText(/^First word after .* in all · 61 tokens in, 9 out · cost unknown$/).waitFor();
    says = { text: "I am ready." };
    await models.getByRole("button", { name: "Test mock/large" }).click();
    await models.getByText(/did not call the tool: agents need tool calls/).waitFor();
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

  test("a provider that fails again and again is shown as paused, since when and until when, and ready once it answers", async () => {
    says = { text: "Done." };
    await page.goto(`${service.url}/ui/models`);
    const row = page.getByRole("listitem").filter({ has: page.getByRole("list", { name: "Models of Mock" }) });
    // Control: it is not, before it has failed.
    await row.getByText(/^Ready/).waitFor();
    expect(await page.getByText("Paused after").count()).toBe(0);
    says = { fail: { status: 503, message: "down" } };
    const directory = makeProject(join(root, "paused"), { "a.txt": "one\n" });
    const client = createServiceClient({ baseUrl: service.url, directory });
    const { data } = await client.task.create({
      body: { request: "do it", productPillar: "code", model: "mock/large", checks: [] },
    });
    const time = String.raw`\d{1,2}:\d\d:\d\d( [AP]M)?`;
    const words = new RegExp(
      String.raw`^Paused after \d+ failures in a row, since ${time}, next try (at ${time}|now)$`,
    );
    await row.getByText(words).waitFor({ timeout: 15_000 });
    await row.getByText(/^Failing/).waitFor();
    expect(await violations(page)).toEqual([]);
    await page.goto(`${service.url}/ui/doctor`);
    await page.getByText(words).waitFor();
    says = { text: "Done." };
    await client.task.wait({ path: { taskID: data?.taskID ?? "" }, timeoutMs: 20_000 });
    await page.goto(`${service.url}/ui/models`);
    await row.getByText(/^Ready/).waitFor();
    expect(await page.getByText("Paused after").count()).toBe(0);
    expect(complaints).toEqual([]);
  });

  test("a first start opens on connecting a model: the key is kept, answers from then on, and is nowhere on the page", async () => {
    const own = join(root, "first");
    await using first = await startService(own, {});
    const key = "sk-ant-page-0123456789-abcdefghij";
    const context = await page.context().browser()?.newContext({ reducedMotion: "reduce", viewport });
    if (context === undefined) return;
    const other = await context.newPage();
    const troubles = watch(other, first.url);
    await other.goto(first.url);
    await other.getByRole("heading", { level: 1, name: "Connect a model" }).waitFor();
    const form = other.getByRole("form", { name: "Connect a model" });
    expect(await form.getByLabel("API key").getAttribute("type")).toBe("password");
    expect(await violations(other)).toEqual([]);
    await form.getByLabel("API key").fill("too short");
    await form.getByRole("button", { name: "Connect" }).click();
    await other.getByRole("alert").getByText("Expected a key of 8 to 500 characters").waitFor();
    expect(existsSync(join(own, "config.jsonc"))).toBe(false);
    await form.getByLabel("API key").fill(key);
    await form.getByRole("button", { name: "Connect" }).click();
    await other.getByText(/^anthropic\/claude\S+ is now in use\.$/).waitFor();
    expect(await form.getByLabel("API key").inputValue()).toBe("");
    await other.goto(`${first.url}/ui/models`);
    await other.getByText("Ready, key from config.jsonc").waitFor();
    expect(await other.content()).not.toContain(key);
    expect(await violations(other)).toEqual([]);
    expect([
      readFileSync(join(own, "config.jsonc"), "utf8").includes(key),
      statSync(join(own, "config.jsonc")).mode & 0o777,
    ]).toEqual([true, 0o600]);
    expect(troubles).toEqual([]);
    await context.close();
  });

  test("a manual that a message names is a screen, with links to others; one that is not there is said to be missing", async () => {
    const project = makeProject(join(root, "manual"), { "a.txt": "one\n" });
    const client = createServiceClient({ baseUrl: service.url, directory: project });
    const { data } = await client.task.create({ body: { request: "find out why", productPillar: "code" } });
    const taskID = data?.taskID ?? "";
    await client.task.wait({ path: { taskID } });
    await page.goto(`${service.url}/ui/task/${taskID}`);
    const [manual] = await Promise.all([
      page.waitForEvent("popup"),
      page.getByRole("link", { name: "/ui/manual/rules" }).click(),
    ]);
    await manual.getByRole("heading", { level: 1, name: "The built-in rules" }).waitFor();
    await manual.getByRole("cell", { name: 'replace "colour" with "color" in docs/**/*.md' }).waitFor();
    expect(await violations(manual)).toEqual([]);
    expect(await manual.getByRole("link", { name: "forge's event" }).getAttribute("href")).toBe(
      `${service.url}/ui/manual/repositories`,
    );
    await manual.goto(`${service.url}/ui/manual/riddles`);
    await manual.getByRole("heading", { level: 1, name: "Page not found" }).waitFor();
    await manual.close();
  });

  test("what a project requests is shown with the command that grants it, and is granted once that was run", async () => {
    const project = makeProject(join(root, "asks"), {
      ".mcp.json": '{ "mcpServers": { "docs": { "command": "docs-mcp" } } }',
      ".sortie/environment.jsonc": '{ "network": "everything" }',
    });
    const screen = `${service.url}/ui/environment?project=${encodeURIComponent(project)}`;
    await page.goto(screen);
    const servers = page.getByRole("region", { name: "MCP servers" });
    await servers.getByText("Not granted", { exact: true }).waitFor();
    await servers.getByText('docs: runs "docs-mcp" in the sandbox, without a network').waitFor();
    const command = (await servers.getByText(/^sortie trust -C /).textContent()) ?? "";
    const other = page.getByRole("region", { name: "Environment" });
    await other.getByText("Cannot be granted", { exact: true }).waitFor();
    expect(await other.getByRole("list", { name: "Problems" }).textContent()).toContain("network");
    expect(await violations(page)).toEqual([]);
    const words = [home, command.replace(/^sortie /, ""), `--data-dir '${service.dataDir}'`].join(" ");
    execFileSync("sh", ["-c", `exec '${process.execPath}' ${words}`], {
      env: { PATH: process.env["PATH"], HOME: root, ...compileCache },
    });
    await page.reload();
    await servers.getByText("Granted", { exact: true }).waitFor();
    expect(await servers.getByText(/^sortie trust/).count()).toBe(0);
    // Control: a changed file is not granted.
    writeFileSync(join(project, ".mcp.json"), '{ "mcpServers": { "docs": { "command": "other-mcp" } } }');
    await page.reload();
    await servers.getByText("Not granted", { exact: true }).waitFor();
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
    await hooks.getByText(/^The test message was accepted: 204 in/).waitFor();
    expect(receiver.types()).toEqual(["webhook.test"]);
    const directory = makeProject(join(root, "project"), { "a.txt": "one\n" });
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
    const dead = page.getByRole("region", { name: "Failed deliveries" });
    await dead.getByText("Failed", { exact: true }).first().waitFor();
    expect(await violations(page)).toEqual([]);
    status = 204;
    await hooks.getByRole("button", { name: "Enable" }).click();
    await hooks.getByText("Enabled", { exact: true }).waitFor();
    await dead.getByRole("button", { name: "Resend all" }).click();
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
