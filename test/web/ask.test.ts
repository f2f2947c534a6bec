import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { createServiceClient } from "../../src/client/client.ts";
import { makeProject, readText } from "../harness/project.ts";
import type { TestService } from "../harness/service.ts";
import { violations } from "./browser.ts";
import { inBrowser, onStage, viewport } from "./stage.ts";

/** What a Task asks, on its page: permissions with what they would do, questions with one box. */

let service: TestService;
let page: Page;
let complaints: string[] = [];
let count = 0;

const command = "cp a.txt released.txt && echo released";
const calls = {
  command: { tool: "shell", input: { command } },
  change: { tool: "edit", input: { path: "Dockerfile", edits: [{ old: "FROM node:20", new: "FROM node:24" }] } },
  whole: { tool: "write", input: { path: "Dockerfile", content: `FROM node:24\n${"RUN true\n".repeat(3000)}` } },
  slices: {
    tool: "slice",
    input: { plan: [{ title: "A notice", objective: "NOTICE says **who**.", acceptance: ["NOTICE is there"] }] },
  },
  notice: { tool: "write", input: { path: "NOTICE", content: "us\n" } },
  question: {
    tool: "ask",
    input: { question: "Which **currency** should totals use?", options: ["EUR", "USD"], default: "EUR" },
  },
};

const root = onStage({
  name: "ask",
  model: ({ first, turn }) => {
    const call = Object.entries(calls).find(([name]) => first.includes(`[${name}]`))?.[1];
    return turn === 0 && call !== undefined ? { calls: [call] } : { text: "Done." };
  },
  config: () => ({ permissions: { ask: ["shell(cp a.txt released.txt:*)", "write(Dockerfile)"] } }),
  ready: (stage) => void ({ service, page, complaints } = stage),
});

const asked = async (name: keyof typeof calls, body: { approve?: ("plan" | "landing")[] } = {}) => {
  const directory = makeProject(join(root, `project-${(count += 1)}`), {
    "a.txt": "one\n",
    Dockerfile: "FROM node:20\nCMD node\n",
  });
  const client = createServiceClient({ baseUrl: service.url, directory });
  const { data } = await client.task.create({
    body: { request: `Do it. [${name}]`, productPillar: "code", ...body },
  });
  const taskID = data?.taskID ?? "";
  await page.goto(`${service.url}/ui/task/${taskID}`);
  const card = page.getByRole("region", { name: "The Task is waiting for you" });
  await card.waitFor();
  return { directory, client, taskID, card };
};

inBrowser("what a Task asks", () => {
  test("a permission shows the command, and which answer is the default; what is allowed is done", async () => {
    const { directory, client, taskID, card } = await asked("command");
    expect((await card.getByRole("region", { name: "It would run" }).innerText()).trim()).toBe(command);
    await card.getByRole("button", { name: "Deny default" }).waitFor();
    expect(await card.getByText("default", { exact: true }).count()).toBe(1);
    expect(await violations(page)).toEqual([]);
    const timesAsked = async () => (await page.locator("main").innerText()).split("Allow the agent to").length - 1;
    expect(await timesAsked()).toBe(1);
    await page.goto(`${service.url}/?project=${directory}&view=board`);
    await page.getByRole("region", { name: "Needs you" }).getByText("Allow the agent to").waitFor();
    expect(await timesAsked()).toBe(1);
    await page.goBack();
    await card.getByRole("button", { name: "Allow" }).click();
    await client.task.wait({ path: { taskID } });
    expect(readText(directory, "released.txt")).toBe("one\n");
    // Once it is answered, the conversation tells it.
    await page.getByRole("tab", { name: "Conversation" }).click();
    await page.getByRole("log").getByText("Asks for permission: Allow the agent to").waitFor();
    expect(complaints).toEqual([]);
  });

  test("a permission for a file shows its change as a diff; of a long one the beginning, and all on request", async () => {
    const { card, client, taskID, directory } = await asked("change");
    const diff = card.getByRole("region", { name: "It would change Dockerfile" });
    expect((await diff.innerText()).split("\n").filter((line) => /^[-+]/.test(line))).toEqual([
      "-FROM node:20",
      "+FROM node:24",
    ]);
    await card.getByRole("button", { name: "Deny" }).click();
    await client.task.wait({ path: { taskID } });
    expect(readText(directory, "Dockerfile")).toContain("node:20");
    const long = await asked("whole");
    await long.card.getByText("FROM node:24").first().waitFor();
    await long.card.getByRole("button", { name: /^Show all/ }).click();
    const whole = long.card.getByRole("region", { name: "It would write Dockerfile" });
    await whole.getByText("+FROM node:24").waitFor();
    await long.client.task.cancel({ path: { taskID: long.taskID } });
  });

  test("a question has Markdown, its default marked and one box; what is written there outlives a reload", async () => {
    const { client, taskID, card } = await asked("question");
    expect(await card.locator("strong").allTextContents()).toEqual(["currency"]);
    await card.getByRole("button", { name: "EUR default" }).waitFor();
    expect(await page.locator("main").getByRole("textbox").count()).toBe(1);
    await card.getByLabel("Your own answer").fill("CHF, as before");
    await page.reload();
    expect(await card.getByLabel("Your own answer").inputValue()).toBe("CHF, as before");
    expect(await violations(page)).toEqual([]);
    // Whoever wants to say something else still can.
    await page.getByRole("button", { name: "Write a message instead" }).click();
    await page.getByLabel("Send a message to this Task").fill("Not yet.");
    await page.reload();
    await card.waitFor();
    await page.keyboard.press("m");
    expect(await page.getByLabel("Send a message to this Task").inputValue()).toBe("Not yet.");
    await card.getByRole("button", { name: "Answer" }).click();
    const { data } = await client.task.wait({ path: { taskID } });
    expect(data?.lifecycleStatus).toBe("completed");
    expect(complaints).toEqual([]);
  });

  test("an approval shows the plan, or the whole change; it is denied with words, or approved", async () => {
    const planned = await asked("slices", { approve: ["plan"] });
    await planned.card.getByText("Approval needed").waitFor();
    const plan = planned.card.getByRole("list", { name: "The plan" });
    await plan.getByText("A notice").waitFor();
    expect(await plan.locator("strong").allTextContents()).toEqual(["who"]);
    await plan.getByText("NOTICE is there").waitFor();
    expect(await violations(page)).toEqual([]);
    await planned.card.getByLabel("What to change").fill("Say whose.");
    expect(await planned.card.getByRole("button", { name: "Approve" }).isDisabled()).toBe(true);
    await planned.card.getByRole("button", { name: "Deny" }).click();
    await page.getByRole("log").getByText("The plan was not approved: Say whose.").waitFor();
    await planned.client.task.cancel({ path: { taskID: planned.taskID } });

    const { card, client, taskID, directory } = await asked("notice", { approve: ["landing"] });
    await card.getByText("Waits until you answer").waitFor();
    const change = card.getByRole("region", { name: /^Commit [0-9a-f]{12} would land on main$/ });
    await change.getByText("+us").waitFor();
    expect(await violations(page)).toEqual([]);
    // On a low screen it scrolls, and lies over nothing.
    for (const [width, tall] of [
      [390, 844],
      [360, 640],
    ] as const) {
      await page.setViewportSize({ width, height: tall });
      const panel = await page.getByRole("tabpanel").boundingBox();
      const box = await card.locator("xpath=..").boundingBox();
      expect((box?.y ?? 0) - ((panel?.y ?? 0) + (panel?.height ?? 0))).toBeGreaterThanOrEqual(-1);
      expect((box?.y ?? 0) + (box?.height ?? 0)).toBeLessThanOrEqual(tall + 1);
      expect(panel?.height).toBeGreaterThanOrEqual(90);
    }
    await page.setViewportSize(viewport);
    await card.getByRole("button", { name: "Approve" }).click();
    await client.task.wait({ path: { taskID } });
    expect(readText(directory, "NOTICE")).toBe("us\n");
    expect(complaints).toEqual([]);
  });
});
