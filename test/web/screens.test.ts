import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServiceClient } from "../../src/client/client.ts";
import { browserHere } from "../harness/browser.ts";
import { built } from "../harness/built.ts";
import { makeProject, temporary } from "../harness/project.ts";
import { startService, type TestService } from "../harness/service.ts";
import { launch, violations } from "./browser.ts";
import { inBrowser } from "./stage.ts";
import { night } from "../harness/night.ts";

/** Every screen: how it is served, how heavy it is, whether everybody can read it, whether it fits. */

const root = temporary("sortie-screens-");
let service: TestService;
let browser: Browser | undefined;
let project = "";
let taskID = "";

beforeAll(async () => {
  await built();
  service = await startService(join(root.path, "data"));
  project = makeProject(join(root.path, "project"), { "a.txt": "one\n" });
  const client = createServiceClient({ baseUrl: service.url, directory: project });
  const request = 'replace "one" with "two" in a.txt';
  const { data } = await client.task.create({ body: { request, productPillar: "code", checks: ["echo no; exit 1"] } });
  taskID = data?.taskID ?? "";
  await client.task.wait({ path: { taskID } });
  if (browserHere !== undefined) browser = await launch();
}, 150_000);
afterAll(async () => {
  await browser?.close();
  await service[Symbol.asyncDispose]();
  root[Symbol.dispose]();
});

/** By day those that most people see; all of them at night. */
const screens = (): string[] =>
  night
    ? allScreens()
    : allScreens().filter((path) => /^\/(\?project=[^&]*$|ui\/(task|missions).*(result|changes|missions))/.test(path));
const allScreens = (): string[] => [
  "/",
  `/?project=${project}`,
  `/?project=${project}&view=board`,
  ...["result", "conversation", "changes", "checks", "topology", "events"].map(
    (tab) => `/ui/task/${taskID}?tab=${tab}`,
  ),
  `/ui/missions?project=${project}`,
  "/ui/squads",
  "/ui/squad/advanced",
  `/ui/environment?project=${project}`,
  "/ui/models",
  `/ui/usage?project=${project}`,
  "/ui/webhooks",
  "/ui/doctor",
  "/ui/nowhere",
];

test("the document comes with its policy, its files are kept for ever, and no route is shadowed", async () => {
  const page = await fetch(service.url);
  const html = await page.text();
  expect(page.headers.get("content-security-policy")).toContain("script-src 'self'; style-src 'self'");
  expect(page.headers.get("content-security-policy")).not.toContain("unsafe");
  expect([page.headers.get("x-content-type-options"), page.headers.get("cache-control")]).toEqual([
    "nosniff",
    "no-cache",
  ]);
  expect(html).not.toMatch(/<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=|https?:/);
  const etag = page.headers.get("etag") ?? "";
  expect((await fetch(service.url, { headers: { "if-none-match": etag } })).status).toBe(304);
  expect((await fetch(service.url, { headers: { "if-none-match": '"other"' } })).status).toBe(200);
  for (const path of ["/ui/task/x", "/ui/squads", "/ui/a/b/c"])
    expect(await (await fetch(service.url + path)).text()).toBe(html);
  for (const [, name = ""] of html.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)) {
    const file = await fetch(service.url + name);
    expect([file.status, file.headers.get("cache-control")]).toEqual([200, "private, max-age=31536000, immutable"]);
  }
  const accept = { headers: { accept: "text/html" } };
  for (const path of ["/task/x", "/tasks", "/squad/x", "/nothing", "/assets/none.js", "/assets/index.html", "/ui2"]) {
    const refused = await fetch(service.url + path, accept);
    expect([path, refused.ok, refused.headers.get("content-type")]).toEqual([
      path,
      false,
      "application/json; charset=utf-8",
    ]);
  }
  expect((await fetch(`${service.url}/ui/squads`, { method: "POST" })).status).toBe(405);
  expect((await fetch(`${service.url}/assets/..%2f..%2fpackage.json`)).status).toBe(400);
});

test("the page brings its own typefaces: one for text, one for code, below 120 KB together", async () => {
  const assets = join(import.meta.dirname, "../../dist/web/assets");
  const fonts = readdirSync(assets).filter((name) => name.endsWith(".woff2"));
  expect(fonts.map((name) => name.replace(/-[\w-]{8}\.woff2$/, "")).toSorted()).toEqual([
    "inter-latin-wght-normal",
    "jetbrains-mono-latin-wght-normal",
  ]);
  expect(fonts.reduce((sum, name) => sum + readFileSync(join(assets, name)).length, 0)).toBeLessThan(120_000);
  const font = await fetch(`${service.url}/assets/${fonts[0]}`);
  expect([font.status, font.headers.get("content-type")]).toEqual([200, "font/woff2"]);
  const css = readdirSync(assets).flatMap((name) =>
    name.endsWith(".css") ? [readFileSync(join(assets, name), "utf8")] : [],
  );
  expect(
    css
      .join("")
      .match(/@font-face\{[^}]*\}/g)
      ?.every((face) => face.includes("font-display:swap")),
  ).toBe(true);
});

test("what a first look loads is below 150 KB, compressed", () => {
  const dist = join(import.meta.dirname, "../../dist/web");
  const html = readFileSync(join(dist, "index.html"), "utf8");
  const first = [...html.matchAll(/(?:src|href)="\/(assets\/[^"]+\.(?:js|css))"/g)].map(([, name = ""]) => name);
  const size = first.reduce((sum, name) => sum + gzipSync(readFileSync(join(dist, name))).length, 0);
  expect(first.length).toBeGreaterThan(1);
  expect(size).toBeGreaterThan(50_000);
  expect(size).toBeLessThan(150_000);
  // Control: some of it comes later.
  expect(readdirSync(join(dist, "assets")).length).toBeGreaterThan(first.length + 5);
});

inBrowser("in a browser", () => {
  test("no rule of accessibility is broken on any screen, and none is wider than a narrow telephone", async () => {
    if (browser === undefined) return;
    const context = await browser.newContext({ reducedMotion: "reduce", viewport: { width: 1440, height: 900 } });
    const page = await context.newPage();
    const broken: string[] = [];
    for (const path of screens()) {
      await page.setViewportSize({ width: 1440, height: 900 });
      await page.goto(service.url + path);
      await page.getByRole("heading", { level: 1 }).first().waitFor();
      await page.getByRole("status", { name: /^Loading/ }).waitFor({ state: "detached" });
      broken.push(...(await violations(page)).map((line) => `${path} ${line}`));
      await page.setViewportSize({ width: 360, height: 640 });
      const width = await page.evaluate<number>(
        "Math.max(document.documentElement.scrollWidth, document.querySelector('main').scrollWidth)",
      );
      if (width > 360) broken.push(`${path} is ${width} px wide at 360`);
    }
    expect(broken).toEqual([]);
    await page.goto(`${service.url}/?project=${project}`);
    await page.getByRole("button", { name: "Open the menu" }).click();
    await page.getByRole("link", { name: "Squads" }).click();
    await page.getByRole("heading", { level: 1, name: "Squads" }).waitFor();
    await context.close();
  }, 60_000);

  test("text and code are set in the page's own typefaces, and figures stand below each other", async () => {
    if (browser === undefined) return;
    const page = await browser.newPage();
    await page.goto(`${service.url}/ui/task/${taskID}?tab=checks`);
    await page.getByRole("region", { name: /^Log of/ }).waitFor();
    const loaded = () =>
      page.evaluate<string[]>(
        "[...document.fonts].filter(({ status }) => status === 'loaded').map(({ family }) => family.replaceAll('\"', '')).sort()",
      );
    await expect.poll(loaded).toEqual(["Inter Variable", "JetBrains Mono Variable"]);
    const widths = await page.evaluate<number[]>(`["111111", "888888"].map((text) => {
      const word = document.body.appendChild(document.createElement("span"));
      word.textContent = text;
      word.className = "tabular";
      const { width } = word.getBoundingClientRect();
      word.remove();
      return width;
    })`);
    expect(widths[0]).toBe(widths[1]);
    await page.close();
  });

  test("control: what breaks a rule is found", async () => {
    if (browser === undefined) return;
    const page = await browser.newPage();
    await page.setContent('<html><body><img src="x.png"><p style="color:#999;background:#aaa">words</p></body></html>');
    expect((await violations(page)).map((line) => line.split(":")[0])).toEqual(
      expect.arrayContaining(["image-alt", "color-contrast"]),
    );
    await page.close();
  });
});
