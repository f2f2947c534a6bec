import { join } from "node:path";
import type { BrowserContext, Page } from "playwright-core";
import { expect, test } from "vitest";
import { createServiceClient } from "../../src/client/client.ts";
import { makeProject } from "../harness/project.ts";
import type { TestService } from "../harness/service.ts";
import { violations } from "./browser.ts";
import { inBrowser, onStage } from "./stage.ts";

/** A Task while it runs, and what it came to: its stages, what it does now, its result. */

let service: TestService;
let context: BrowserContext;
let page: Page;
let complaints: string[] = [];
let count = 0;

const sum = "export const sum = (a, b) => a - b;\n";
const content = Array.from({ length: 600 }, (_, line) => `export const line${line} = "${line}";\n`).join("");
const report = "`sum` **adds** now.\n\n- one file";

const root = onStage({
  name: "run",
  height: 900,
  model: ({ first, turn }) => {
    if (first.includes("count slowly"))
      return turn === 0
        ? { calls: [{ tool: "shell", input: { command: "for i in $(seq 600); do echo line $i; sleep 0.1; done" } }] }
        : { text: "Counted." };
    if (first.includes("write slowly"))
      return turn === 0
        ? { overMs: 20_000, calls: [{ tool: "write", input: { path: "src/invoices/csv.ts", content } }] }
        : { text: "Written." };
    if (first.includes("slow at last"))
      return turn < 4 ? { calls: [{ tool: "shell", input: { command: "sh wait.sh" } }] } : { text: "Waited." };
    if (first.includes("test slowly"))
      return turn === 0
        ? { calls: [{ tool: "shell", input: { command: "for i in $(seq 600); do echo ok $i; sleep 0.1; done" } }] }
        : { text: "Tested." };
    return turn === 0
      ? { calls: [{ tool: "edit", input: { path: "sum.js", edits: [{ old: "a - b", new: "a + b" }] } }] }
      : { text: report };
  },
  config: () => ({ limits: { checkRounds: 0 } }),
  async ready(stage) {
    ({ service, context, page, complaints } = stage);
    await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: service.url });
  },
});

/** Three times it is quick. */
const wait = "n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) > n; [ $n -lt 3 ] || sleep 300\n";
const project = (): string => makeProject(join(root, `project-${(count += 1)}`), { "sum.js": sum, "wait.sh": wait });
const begin = async (directory: string, request: string, more: { checks?: string[]; landing?: "branch" } = {}) => {
  const client = createServiceClient({ baseUrl: service.url, directory });
  const { data } = await client.task.create({ body: { request, productPillar: "code", ...more } });
  return { client, taskID: data?.taskID ?? "" };
};
const ended = async (directory: string, request: string, more: Parameters<typeof begin>[2] = {}) => {
  const { client, taskID } = await begin(directory, request, more);
  const { data } = await client.task.wait({ path: { taskID } });
  await page.goto(`${service.url}/ui/task/${taskID}`);
  return { taskID, status: data };
};
const header = () => page.getByRole("region", { name: "The Task" });
const result = () => page.getByRole("region", { name: "Result" });
const stages = () => page.getByRole("list", { name: "Stages" }).getByRole("listitem");
/** The stages as they are read out, without times. */
const stated = async (): Promise<string[]> =>
  (await stages().allTextContents()).map((text) => text.replace(/ [✓✕–]/, "").replace(/\d.*$/, ""));
const numberIn = async (pattern: RegExp): Promise<number> =>
  Number(pattern.exec((await header().innerText()).replaceAll(/\s+/g, " "))?.[1] ?? -1);

inBrowser("a Task on the page", () => {
  test("while it runs: the stage it is in, what it does, seconds and lines that count; on its end the result opens", async () => {
    const { client, taskID } = await begin(project(), "count slowly");
    await page.goto(`${service.url}/ui/task/${taskID}`);
    await header().getByText("for i in $(seq 600)").waitFor();
    await stages().locator("visible=true").nth(4).waitFor();
    await page.locator('[aria-current="step"]').getByText("Work").waitFor();
    expect(await stated()).toEqual([
      "Queue, done",
      "Work, in progress",
      "Checks, not started",
      "Review, not started",
      "Land, not started",
    ]);
    await header()
      .getByText(/^\d+ lines$/)
      .waitFor();
    const seen = new Set<number>();
    const seconds = new Set<number>();
    const until = Date.now() + 4_000;
    while (Date.now() < until) {
      seen.add(await numberIn(/(\d+) lines/));
      seconds.add(await numberIn(/ lines (\d+) s/));
      await page.waitForTimeout(100);
    }
    expect(seen.size).toBeGreaterThan(5);
    expect(seconds.size).toBeGreaterThan(2);
    expect(await page.getByRole("tab", { name: "Result" }).count()).toBe(0);
    expect(await violations(page)).toEqual([]);
    await page.goto(`${service.url}/`);
    await page
      .getByRole("link", { name: /count slowly/ })
      .getByText("for i in $(seq 600)")
      .waitFor();
    await page.goBack();
    await client.task.cancel({
      path: { taskID },
      body: { surface: "web", reason: `seen enough ${"W".repeat(1_500)} and that is all` },
    });
    // However long the reason is, the headline stays one, and the rest can be read below it.
    await result().getByRole("heading", { name: "seen enough" }).waitFor();
    expect((await result().getByRole("heading", { level: 2 }).first().boundingBox())?.height).toBeLessThan(160);
    await result().getByText("and that is all").waitFor();
    expect(await page.evaluate<boolean>("document.querySelector('main').scrollWidth <= innerWidth")).toBe(true);
    expect(await stated()).toContain("Work, cancelled here");
  });

  test("a file that a model writes: its path and how many lines, on its page, in its row and in the record", async () => {
    const directory = project();
    const { client, taskID } = await begin(directory, "write slowly");
    await page.goto(`${service.url}/ui/task/${taskID}`);
    await header().getByText("src/invoices/csv.ts").waitFor();
    const on = new Set<number>();
    for (const until = Date.now() + 8_000; Date.now() < until; await page.waitForTimeout(100))
      on.add(await numberIn(/Writing src\/invoices\/csv\.ts (\d+) lines/));
    expect(on.size).toBeGreaterThan(10);
    await page.goto(`${service.url}/?project=${directory}`);
    const row = page.getByRole("link", { name: /write slowly/ });
    await row.getByText("src/invoices/csv.ts").waitFor();
    const inRow = new Set<string | undefined>();
    for (const until = Date.now() + 6_500; Date.now() < until; await page.waitForTimeout(100))
      inRow.add(/(\d+) lines/.exec(await row.innerText())?.[1]);
    expect(inRow.size).toBeGreaterThan(2);
    const { data } = await client.task.status({ path: { taskID } });
    expect(data?.now).toMatchObject({ text: "Writing `src/invoices/csv.ts`", soFar: { unit: "line" } });
    await client.task.cancel({ path: { taskID }, body: {} });
    const { data: after } = await client.task.wait({ path: { taskID } });
    expect(after?.now).toBeNull();
  }, 60_000);

  test("a command that runs tests: how many have ended", async () => {
    const { client, taskID } = await begin(project(), "test slowly");
    await page.goto(`${service.url}/ui/task/${taskID}`);
    await header()
      .getByText(/^\d+ tests$/)
      .waitFor();
    expect(await numberIn(/(\d+) tests/)).toBeGreaterThan(0);
    await client.task.cancel({ path: { taskID }, body: {} });
  });

  test("what takes three times as long as usual is told so, and how long that is", async () => {
    const { client, taskID } = await begin(project(), "slow at last");
    await expect
      .poll(async () => (await client.task.status({ path: { taskID } })).data?.usage.toolCalls, { timeout: 15_000 })
      .toBe(4);
    await expect
      .poll(async () => (await client.task.status({ path: { taskID } })).data?.now?.usualMs)
      .toBeGreaterThan(0);
    const own = await context.newPage();
    await own.clock.install();
    await own.goto(`${service.url}/ui/task/${taskID}`);
    const line = own.getByRole("region", { name: "The Task" });
    await line.getByText("sh wait.sh").waitFor();
    expect(await line.getByText(/^usually/).count()).toBe(0);
    await own.clock.fastForward(60_000);
    await line.getByText(/^usually \d+ m?s$/).waitFor();
    expect(await violations(own, ["color-contrast"])).toEqual([]);
    await own.close();
    await client.task.cancel({ path: { taskID }, body: {} });
  });

  test("a completed one: where it landed, its size, report, checks, review, and commands to copy; each once", async () => {
    const directory = project();
    const { status } = await ended(directory, "add, do not subtract", { checks: ["grep -q + sum.js"] });
    const commit = (status?.git.landedCommit ?? "").slice(0, 10);
    await result()
      .getByRole("heading", { name: `Committed ${commit} to main` })
      .waitFor();
    await result().getByText("adds", { exact: true }).waitFor();
    expect(await result().locator("strong").allTextContents()).toEqual(["adds"]);
    await result().getByRole("img", { name: "Changed lines: 1 added, 1 removed" }).waitFor();
    await result().getByRole("region", { name: "Review" }).getByText("accepted").waitFor();
    expect(await stated()).toEqual(["Queue, done", "Work, done", "Checks, done", "Review, done", "Land, done"]);
    const all = (await page.locator("main").innerText()).split("grep -q + sum.js").length - 1;
    expect(all).toBe(1);
    await result().getByRole("button", { name: "Copy the command: undo" }).click();
    expect(await page.evaluate<string>("navigator.clipboard.readText()")).toBe(`git -C ${directory} revert ${commit}`);
    expect(await violations(page)).toEqual([]);
    await page.setViewportSize({ width: 360, height: 640 });
    expect(await page.evaluate<number>("document.querySelector('main').scrollWidth")).toBeLessThanOrEqual(360);
    await page.setViewportSize({ width: 1280, height: 900 });
    await result().getByRole("button", { name: "View changes" }).click();
    await page.getByRole("region", { name: "Changes of sum.js" }).waitFor();
    await page.keyboard.press("r");
    await result().waitFor();
    expect(complaints).toEqual([]);
  });

  test("who worked from when to when, below who called it, with tokens and cost; a press opens what that one did", async () => {
    const { status } = await ended(project(), "add, do not subtract");
    const sessions = status?.sessionInvocationTopology.nodes ?? [];
    await page.getByRole("tab", { name: /^Topology/ }).click();
    const rows = page.getByTestId("topology").getByRole("listitem");
    await rows.first().waitFor();
    const texts = (await rows.allInnerTexts()).map((text) => text.replaceAll(/\s+/g, " "));
    expect(texts).toHaveLength(sessions.length);
    expect(sessions.length).toBeGreaterThan(1);
    expect(texts[0]).toMatch(/^orchestrator ended .*\d\d:\d\d:\d\d–\d\d:\d\d:\d\d, .* tokens, cost unknown$/);
    expect(texts.slice(1).join(" ")).toMatch(/reviewer ended .* by the service/);
    const indent = async (at: number): Promise<number> =>
      (await rows.nth(at).locator("[aria-hidden=true].size-2").boundingBox())?.x ?? Number.NaN;
    expect(await indent(1)).toBeGreaterThan(await indent(0));
    expect(await violations(page)).toEqual([]);
    await rows.filter({ hasText: "reviewer" }).getByRole("button").click();
    await page
      .getByRole("log")
      .getByRole("article", { name: /^reviewer/ })
      .first()
      .waitFor();
    expect(await page.getByRole("article", { name: /^orchestrator/ }).count()).toBe(0);
  });

  test("on a branch of its own: the commands check it out and merge it", async () => {
    const directory = project();
    const { status } = await ended(directory, "add, do not subtract", { landing: "branch", checks: ["true"] });
    await result().getByText(`git -C ${directory} switch ${status?.git.branch}`).waitFor();
  });

  test("a check that turns red while it is looked at opens at what failed", async () => {
    const { taskID } = await begin(project(), "add, do not subtract", {
      checks: ["sleep 4; echo 'Error: no'; exit 1"],
    });
    await page.goto(`${service.url}/ui/task/${taskID}?tab=checks`);
    const check = page.getByRole("main").getByRole("button", { name: /^sleep 4/ });
    await check.getByText("running", { exact: true }).waitFor();
    expect(await check.getAttribute("aria-expanded")).toBe("false");
    await page
      .getByRole("region", { name: /^Log of/ })
      .getByText("Error: no")
      .waitFor();
  });

  test("rows of running Tasks are asked for every two seconds, and not while the page is hidden", async () => {
    const directory = project();
    const { client, taskID } = await begin(directory, "count slowly");
    const own = await context.newPage();
    await own.addInitScript(
      "Object.defineProperty(document, 'visibilityState', { get: () => (window.away === true ? 'hidden' : 'visible') })",
    );
    let asked = 0;
    own.on("request", (request) => {
      if (request.url().includes("lifecycleStatus=active")) asked += 1;
    });
    await own.goto(`${service.url}/?project=${directory}`);
    await own
      .getByRole("link", { name: /count slowly/ })
      .getByText(/\d+ lines/)
      .waitFor();
    const during = async (away: boolean): Promise<number> => {
      await own.evaluate(
        `window.away = ${away}; document.dispatchEvent(new Event("visibilitychange", { bubbles: true }))`,
      );
      await own.waitForTimeout(500);
      asked = 0;
      await own.waitForTimeout(5000);
      return asked;
    };
    expect(await during(true)).toBe(0);
    expect(await during(false)).toBeGreaterThan(0);
    await own.close();
    await client.task.cancel({ path: { taskID }, body: {} });
  });

  test("a failed one: what failed in a sentence, the first failing lines, and its branch", async () => {
    const failing = "echo setting up; echo 'FAIL sum.test.js:12 expected 3, got -1'; exit 4";
    const { status } = await ended(project(), "add, do not subtract", { checks: ["true", failing] });
    await result().getByRole("heading", { name: "1 of 2 checks failed" }).waitFor();
    const card = result().getByRole("region", { name: /^Failing/ });
    await card.getByText("exit 4", { exact: true }).waitFor();
    expect(await card.getByRole("region", { name: /^First failing lines/ }).innerText()).toContain(
      "expected 3, got -1",
    );
    await result().getByText(`switch ${status?.git.branch}`).waitFor();
    expect(await stated()).toEqual([
      "Queue, done",
      "Work, done",
      "Checks, failed here",
      "Review, skipped",
      "Land, skipped",
    ]);
    expect((await header().innerText()).includes("checks failed")).toBe(false);
    expect(await violations(page)).toEqual([]);
    // Elsewhere the header says it, since the result is out of sight.
    await page.getByRole("tab", { name: "Events" }).click();
    await header().getByText("checks failed").waitFor();
  });
});
