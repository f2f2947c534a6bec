import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import {
  author,
  dispatch,
  finish,
  missionOf,
  openStage,
  plan,
  type Say,
  type Stage,
  wake,
} from "../harness/double/missions.ts";
import { type MockRequest, type MockTurn, verdictOn } from "../harness/double/mock-provider.ts";
import { readText, until } from "../harness/project.ts";
import { violations } from "./browser.ts";
import { inBrowser, onStage } from "./stage.ts";

/** A Mission on the page: begun, planned, handed out, woken again, aborted. */

let stage: Stage;
let page: Page;
let complaints: string[] = [];
/** Whether whoever judges the whole keeps its verdict back. */
let holds = false;
const judges = (request: MockRequest): MockTurn | undefined =>
  holds && request.turn === 0 ? { hold: true, ...verdictOn("accepted", "All of it is there.") } : undefined;
onStage({
  name: "mission",
  width: 1440,
  height: 900,
  serve: async () => (stage = await openStage({}, {}, undefined, undefined, judges)).service,
  ready: (on) => void ({ page, complaints } = on),
  end: () => stage?.[Symbol.asyncDispose](),
});

const write = (path: string) => ({ tool: "write", input: { path, content: "made\n" } });
const worker: Say = (turn, { first }) =>
  turn === 0 ? { calls: [write(/Write (\S+)\./.exec(first)?.[1] ?? "x.txt")] } : { text: "Wrote it." };
const state = (word: string) => page.getByRole("region", { name: "The Mission" }).getByText(word, { exact: true });
const broken = async (): Promise<string[]> => {
  await page.setViewportSize({ width: 360, height: 640 });
  const width = await page.evaluate<number>("document.querySelector('main').scrollWidth");
  await page.setViewportSize({ width: 1440, height: 900 });
  return [...(width > 360 ? [`${width} px wide at 360`] : []), ...(await violations(page))];
};

inBrowser("a Mission", () => {
  test("from the goal to the plan, its Tasks, its word on the whole, and woken again", async () => {
    const said: ReturnType<Say>[] = [
      { calls: [plan("a", { id: "b", after: ["a"] })] },
      { text: "**One** runs.", calls: [dispatch("a", "Write a1.txt. [page]")] },
      { text: "The other runs.", calls: [dispatch("b", "Write b1.txt. [page]")] },
      { calls: [finish("done", "All of it:\n\n- **both files** are there\n- nothing else")] },
      { text: "Nothing is left to do. [page]" },
    ];
    stage.play("page", { mission: (turn) => said[turn] ?? { text: "Nothing more." }, task: worker });
    const directory = stage.project();
    await page.goto(`${stage.service.url}/ui/missions?project=${directory}`);
    await page.getByText("No Missions yet").waitFor();
    await page.getByLabel("The goal").fill("Two files, one after the other. [page]");
    await page.getByRole("button", { name: "Start Mission" }).click();
    await page.waitForURL(/\/ui\/mission\//);
    await state("Done").waitFor();
    const verdict = page.getByRole("region", { name: "The Mission" }).getByRole("link", { name: "accepted" });
    expect(await verdict.getAttribute("title")).toBe("All of it is there.");
    await page.getByText("2 of 2 done").first().waitFor();
    const parts = page.getByRole("region", { name: "Plan" }).getByRole("listitem");
    expect(await parts.filter({ hasText: "After" }).count()).toBe(1);
    expect(await page.getByRole("log").innerText()).toContain("Dispatched");
    await page.getByRole("region", { name: "The Mission" }).getByText("3, 0 running").waitFor();
    // Its report as it was written, not as one paragraph.
    await page.getByRole("log").locator("li strong").getByText("both files").first().waitFor();
    expect(await broken()).toEqual([]);

    await page.getByLabel("Send instructions to this Mission").fill("Is anything left?");
    await page.getByRole("button", { name: "Wake" }).click();
    await page.getByRole("log").getByText("Nothing is left to do.").first().waitFor();

    await page
      .getByRole("region", { name: "Plan" })
      .getByRole("link", { name: /Completed/ })
      .first()
      .click();
    await page
      .getByRole("region", { name: "The Task" })
      .getByText("Completed, not verified", { exact: true })
      .waitFor();
    await page.getByRole("link", { name: "Its Mission" }).click();
    await state("Stalled").waitFor();
    expect(complaints).toEqual([]);
  });

  test("a budget is set with the Mission, shown as it is used up, and raised", async () => {
    const said: ReturnType<Say>[] = [
      { calls: [plan("a")] },
      { text: "It runs.", calls: [dispatch("a", "Write capped.txt. [capped]")] },
      { calls: [finish()] },
    ];
    stage.play("capped", { mission: (turn) => said[turn] ?? { text: "Nothing more." }, task: worker });
    await page.goto(`${stage.service.url}/ui/missions?project=${stage.project()}`);
    await page.getByLabel("The goal").fill("One file. [capped]");
    await page.getByLabel("Budget, USD").fill("5");
    await page.getByRole("button", { name: "Start Mission" }).click();
    const facts = page.getByRole("region", { name: "The Mission" });
    await facts.getByText(/^an unknown part of \$5\.00$/).waitFor();
    // Nobody knows what this model costs, so nothing may be spent.
    await state("Stopped").waitFor();
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Set budget" }).click();
    const dialog = page.getByRole("dialog", { name: "Budget of this Mission" });
    expect(await dialog.getByLabel("Cost (USD)").inputValue()).toBe("5");
    expect(await violations(page)).toEqual([]);
    await dialog.getByLabel("Cost (USD)").fill("");
    await dialog.getByLabel("Model calls").fill("1");
    await dialog.getByRole("button", { name: "Set budget" }).click();
    await state("Budget used up").waitFor();
    await page.getByRole("button", { name: "Raise budget" }).click();
    await dialog.getByLabel("Model calls").fill("500");
    await dialog.getByRole("button", { name: "Set budget" }).click();
    await facts.getByText(/^\d+ of 500 calls$/).waitFor();
    await state("Done").waitFor();
    expect(await broken()).toEqual([]);
  });

  test("a plan that was changed after its approval is approved with what differs before one's eyes", async () => {
    const change = [
      { tool: "phase", input: { id: "a", objective: "More is there.", acceptance: ["It is seen."] } },
      { tool: "phase", input: { id: "b", drop: true } },
      { tool: "phase", input: { id: "c", title: "Phase c", objective: "c is there." } },
    ];
    const said: ReturnType<Say>[] = [{ calls: [plan("a", "b")] }, { text: "So?" }, { calls: change }];
    stage.play("differs", { mission: (turn) => said[turn] ?? { text: "Better?" }, task: worker });
    const directory = stage.project();
    const { missionID } = await wake(stage.service.url, directory, { text: "[differs]", approve: ["plan"] });
    // By its id alone, and not in the project that was looked at last.
    await page.goto(`${stage.service.url}/ui/mission/${missionID}`);
    const card = page.getByRole("region", { name: "The Mission is waiting for you" });
    const shown = card.getByRole("group", { name: "The plan" });
    await shown.getByText("b is there.").waitFor();
    expect(await shown.getByText(/^(New|Changed|Dropped)$/).count()).toBe(0);
    expect(await broken()).toEqual([]);
    await card.getByText("otherwise the Mission stands still").waitFor();
    await card.getByRole("button", { name: "Approve" }).click();

    await shown.getByText("Changed", { exact: true }).waitFor();
    const phases = shown.getByRole("listitem");
    await phases.filter({ hasText: "Phase c" }).getByText("New", { exact: true }).waitFor();
    const was = phases.filter({ hasText: "Phase a" }).getByLabel("As it was approved");
    expect((await was.innerText()).split("\n").filter((line) => line !== "")).toEqual([
      "Objective was",
      "a is there.",
      "Acceptance was",
      "nothing",
    ]);
    const gone = shown.getByRole("region", { name: "No longer in the plan" });
    expect(await gone.innerText()).toMatch(/Dropped[\s\S]*Phase b[\s\S]*b is there\./);
    expect(await broken()).toEqual([]);
    expect(complaints).toEqual([]);
  });

  test("a made squad is approved with its package before one's eyes: handbooks, tools, digest", async () => {
    const roster = ["one", "two", "three"].map((name) => ({ name, duty: `The duty of ${name}.` }));
    const made = { phase: "a", squad: "page-crew", name: "Crew", summary: "A crew.", roster };
    stage.play("package", {
      mission: (turn) =>
        turn === 0
          ? { calls: [plan({ id: "a", phase: "web/page" }), { tool: "produce_squad", input: made }] }
          : { text: "It waits." },
    });
    // Whoever makes it has a request without a marker.
    stage.play("", {
      mission: () => ({ text: "" }),
      task: (turn) => (turn === 0 ? { calls: [author(roster)] } : { text: "Made." }),
    });
    const directory = stage.project();
    const { url } = stage.service;
    const body = { text: "[package]", approve: ["squad"], allowSquadProduction: true };
    const { missionID } = await wake(url, directory, body);
    const waits = await until(
      () => missionOf(url, directory, missionID),
      ({ tasks: [task] }) => (task?.pendingCount ?? 0) > 0,
    );
    const [task] = waits.tasks;
    await page.goto(`${url}/ui/task/${task?.taskID}`);
    const card = page.getByRole("region", { name: "The Task is waiting for you" });
    const shown = card.getByRole("region", { name: "The package" });
    for (const words of ["You lead the crew.", "You are three.", task?.pending[0]?.would?.subject ?? "-"])
      await shown.getByText(words).waitFor();
    expect(await broken()).toEqual([]);
    await card.getByRole("button", { name: "Approve" }).click();
    await until(
      () => missionOf(url, directory, missionID),
      ({ plan: [phase] }) => phase?.state === "ready",
    );
    expect(readText(directory, ".sortie/squads/page-crew/agents/three.md")).toContain("You are three.");
    expect(complaints).toEqual([]);
  });

  test("a rename is seen in the list, an abort says what keeps running", async () => {
    stage.play("held", { mission: () => ({ text: "Thinking it over. [held]", hold: true }), task: worker });
    const directory = stage.project();
    await page.goto(`${stage.service.url}/ui/missions?project=${directory}`);
    await page.getByLabel("The goal").fill("Something long. [held]");
    await page.getByRole("button", { name: "Start Mission" }).click();
    await state("Thinking").waitFor();
    await page.getByRole("button", { name: "More actions" }).click();
    await page.getByRole("menuitem", { name: "Rename" }).click();
    await page.getByLabel("Title").fill("A name of its own");
    await page.getByRole("button", { name: "Rename" }).click();
    await page.getByRole("heading", { level: 1, name: "A name of its own" }).waitFor();
    await page.getByRole("button", { name: "Abort", exact: true }).click();
    await page.getByText("None of its Tasks is running.").waitFor();
    await page.getByRole("button", { name: "Abort the Mission" }).click();
    await state("Aborted").waitFor();
    await page.getByRole("link", { name: /^Missions in/ }).click();
    await page.getByRole("link", { name: /A name of its own/ }).waitFor();
    expect(await broken()).toEqual([]);
  });

  test("while the whole is judged the list and its page say so", async () => {
    const said: ReturnType<Say>[] = [
      { calls: [plan("a"), dispatch("a", "Write judged.txt. [judged]")] },
      { text: "It runs." },
      { calls: [finish()] },
    ];
    stage.play("judged", { mission: (turn) => said[turn] ?? { text: "Nothing more." }, task: worker });
    const directory = stage.project();
    holds = true;
    const { missionID } = await wake(stage.service.url, directory, { text: "One file. [judged]", judged: true });
    await page.goto(`${stage.service.url}/ui/missions?project=${directory}`);
    const row = page.getByRole("link", { name: /One file/ });
    await row.getByText("Being judged").waitFor();
    await row.click();
    await state("Being judged").waitFor();
    const facts = page.getByRole("region", { name: "The Mission" });
    const link = await facts.getByRole("link", { name: "being judged" }).getAttribute("href");
    const { judging } = await missionOf(stage.service.url, directory, missionID);
    expect(link).toContain(`/ui/task/${judging?.taskID}`);
    holds = false;
    stage.provider.release();
    await state("Done").waitFor();
    await facts.getByRole("link", { name: "accepted" }).waitFor();
    expect(await broken()).toEqual([]);
  });
});
