import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { browserHere } from "../harness/browser.ts";
import { built } from "../harness/built.ts";
import { makeProject, temporary } from "../harness/project.ts";
import { startService, type TestService } from "../harness/service.ts";
import { launch, violations, watch } from "../web/browser.ts";
import { putMuch, turns } from "../web/large-task.ts";
import { inBrowser } from "../web/stage.ts";

/** The page with far too much of everything. */

const root = temporary("sortie-page-");
let service: TestService;
let browser: Browser;
let project = "";
let ids: string[] = [];

beforeAll(async () => {
  if (browserHere === undefined) return;
  await built();
  project = makeProject(join(root.path, "project"), { "a.txt": "one\n" });
  const dataDir = join(root.path, "data");
  mkdirSync(dataDir);
  ids = await putMuch(dataDir, project);
  service = await startService(dataDir);
  browser = await launch();
}, 240_000);
afterAll(async () => {
  await browser?.close();
  await service?.[Symbol.asyncDispose]();
  root[Symbol.dispose]();
});

const open = async (path: string, width = 1440, height = 900): Promise<{ page: Page; complaints: string[] }> => {
  const page = await browser.newPage({ viewport: { width, height }, reducedMotion: "reduce" });
  const complaints = watch(page, service.url);
  await page.goto(service.url + path);
  await page.getByRole("heading", { level: 1 }).first().waitFor();
  return { page, complaints };
};

/**
 * A log scrolled through: ms between frames (median), and ms of work for each of them, whoever else uses the machine.
 */
const scroll = async (page: Page, label: string): Promise<{ between: number; work: number }> => {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const spent = async () =>
    (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration")?.value ?? 0;
  const before = await spent();
  const frames = await page.evaluate<number[]>(`new Promise((resolve) => {
    const element = document.querySelector('[aria-label="${label}"][tabindex="0"]');
    const frames = [];
    let last = performance.now();
    element.scrollTop = 0;
    const step = (now) => {
      frames.push(now - last);
      last = now;
      element.scrollTop += 240;
      if (frames.length < 240) requestAnimationFrame(step);
      else resolve(frames.sort((a, b) => a - b));
    };
    requestAnimationFrame(step);
  })`);
  const work = ((await spent()) - before) * 1000;
  await session.detach();
  return { between: frames[Math.floor(frames.length / 2)] ?? 0, work: work / frames.length };
};

inBrowser("far too much", () => {
  test("50,000 lines: there at once at the end, whole after a while, and scrolled through smoothly", async () => {
    const began = performance.now();
    const { page, complaints } = await open(`/ui/task/${ids[0]}?tab=conversation`);
    await page
      .getByRole("log")
      .getByText(`Step ${turns - 1}`, { exact: false })
      .waitFor({ timeout: 30_000 });
    const first = performance.now() - began;
    // What came in front has not moved the reader.
    const height = () => page.evaluate<number>("document.querySelector('[role=log]').scrollHeight");
    await expect.poll(height, { timeout: 30_000 }).toBeGreaterThan(1_000_000);
    await page.waitForTimeout(500);
    expect(
      await page
        .getByRole("log")
        .getByText(`Step ${turns - 1}`, { exact: false })
        .isVisible(),
    ).toBe(true);
    await page.getByRole("tab", { name: "Events" }).click();
    await page.getByText("50,002 events").waitFor({ timeout: 120_000 });
    const whole = performance.now() - began;
    const events = await scroll(page, "Events");
    await page.getByRole("tab", { name: "Conversation" }).click();
    const talk = await scroll(page, "Conversation");
    await page.getByLabel("Search the conversation").fill("Step 12345:");
    await page.getByText("1 of 1", { exact: true }).waitFor({ timeout: 20_000 });
    await page.getByRole("button", { name: "Jump to first error" }).click();
    await page
      .getByRole("log")
      .getByRole("button", { name: /npm test -- part-99 exit 1/ })
      .waitFor();
    const nodes = await page.evaluate<number>("document.querySelectorAll('*').length");
    const told = ({ between, work }: typeof talk) =>
      `${between.toFixed(1)} ms between frames, ${work.toFixed(1)} ms of work`;
    console.log(
      `end shown after ${Math.round(first)} ms, whole after ${Math.round(whole)} ms, ${nodes} elements; ` +
        `scrolled, events: ${told(events)}, conversation: ${told(talk)}`,
    );
    // Sixty frames a second leave 16.7 ms for each.
    expect(events.work).toBeLessThan(16);
    expect(talk.work).toBeLessThan(16);
    expect(nodes).toBeLessThan(3000);
    expect(complaints).toEqual([]);
    await page.close();
  });

  test("200 slices, 20 MB of output, long words and another direction: all of it can be read", async () => {
    const { page, complaints } = await open(`/ui/task/${ids[1]}?tab=checks`);
    await page.getByRole("region", { name: "Log of npm test" }).waitFor({ timeout: 60_000 });
    expect(await page.evaluate<number>("document.querySelectorAll('*').length")).toBeLessThan(6000);
    await page
      .getByRole("button", { name: /^Show all 20\d$/ })
      .first()
      .click();
    const lines = page.getByRole("region", { name: "Log of npm test" });
    await lines.focus();
    await page.keyboard.press("End");
    await lines.getByText("51000").waitFor();
    expect(await page.evaluate("getComputedStyle(document.querySelector('h1')).direction")).toBe("rtl");
    expect(complaints).toEqual([]);
    await page.close();
  });

  test.each([360, 768, 1280, 1920])("nothing is wider than a window of %i", async (width) => {
    const wide: string[] = [];
    const { page } = await open(`/?project=${project}`, width, 800);
    const paths = [
      `/?project=${project}`,
      `/?project=${project}&view=board`,
      ...["result", "conversation", "changes", "checks", "topology", "events"].map(
        (tab) => `/ui/task/${ids[1]}?tab=${tab}`,
      ),
    ];
    for (const path of paths) {
      await page.goto(service.url + path);
      await page.getByRole("heading", { level: 1 }).first().waitFor();
      await page.waitForTimeout(300);
      const found = await page.evaluate<number>(
        "Math.max(document.documentElement.scrollWidth, document.querySelector('main').scrollWidth)",
      );
      if (found > width) wide.push(`${path} ${found}`);
    }
    expect(wide).toEqual([]);
    await page.close();
  });

  test("in the dark every word can be read on every screen", async () => {
    const { page } = await open(`/?project=${project}`);
    await page.evaluate("localStorage.setItem('sortie.theme', 'dark')");
    const broken: string[] = [];
    const tabs = ["conversation", "changes", "checks", "topology", "events"].map(
      (tab) => `/ui/task/${ids[1]}?tab=${tab}`,
    );
    for (const path of [
      "/",
      `/?project=${project}&view=board`,
      ...tabs,
      "/ui/squads",
      "/ui/squad/advanced",
      "/ui/models",
      `/ui/usage?project=${project}`,
      "/ui/missions",
      "/ui/webhooks",
      "/ui/doctor",
    ]) {
      await page.goto(service.url + path);
      await page.getByRole("heading", { level: 1 }).first().waitFor();
      await page.waitForTimeout(300);
      broken.push(...(await violations(page, ["color-contrast"])).map((line) => `${path} ${line}`));
    }
    expect(broken).toEqual([]);
    await page.close();
  });
});
