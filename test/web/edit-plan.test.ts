import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { post } from "../harness/double/hostile-text.ts";
import {
  dispatch,
  finish,
  missionOf,
  openStage,
  plan,
  type Say,
  type Stage,
  wake,
} from "../harness/double/missions.ts";
import { until } from "../harness/project.ts";
import { violations } from "./browser.ts";
import { inBrowser, onStage } from "./stage.ts";

/** The forms of a Mission on the page: its plan as a person changes it, and a new Mission with all that it can have. */

let stage: Stage;
let page: Page;
let complaints: string[] = [];
onStage({
  name: "edit-plan",
  width: 1440,
  height: 900,
  serve: async () => (stage = await openStage()).service,
  ready: (on) => void ({ page, complaints } = on),
  end: () => stage?.[Symbol.asyncDispose](),
});

const write = (path: string) => ({ tool: "write", input: { path, content: "made\n" } });
const worker: Say = (turn, { first }) =>
  turn === 0 ? { calls: [write(/Write (\S+)\./.exec(first)?.[1] ?? "x.txt")] } : { text: "Wrote it." };
const broken = async (): Promise<string[]> => {
  await page.setViewportSize({ width: 360, height: 640 });
  const width = await page.evaluate<number>("document.querySelector('main').scrollWidth");
  await page.setViewportSize({ width: 1440, height: 900 });
  return [...(width > 360 ? [`${width} px wide at 360`] : []), ...(await violations(page))];
};

inBrowser("the forms of a Mission", () => {
  test("a plan is edited while it waits, kept over a reload, and approved as edited; then again without its agent", {
    timeout: 60_000,
  }, async () => {
    const said: ReturnType<Say>[] = [{ calls: [plan("a", "b", "c")] }, { text: "So?" }];
    stage.play("form", {
      mission: (turn, _request, newest) =>
        said[turn] ??
        (newest.includes("carry it out")
          ? { text: "Begun.", calls: [dispatch("schema", "Write schema.txt. [form]")] }
          : newest.includes("ended completed")
            ? { calls: [finish("blocked", "Enough.")] }
            : { text: "Nothing more." }),
      task: worker,
    });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "[form]", approve: ["plan"] });
    await page.goto(`${url}/ui/mission/${missionID}`);
    const card = page.getByRole("region", { name: "The Mission is waiting for you" });
    await card.getByRole("button", { name: "Edit before approving" }).click();
    const form = page.getByRole("dialog", { name: "Edit plan" });
    const rows = form.getByRole("list", { name: "Phases" }).getByRole("listitem");
    expect(await form.getByRole("button", { name: "Approve as edited" }).isDisabled()).toBe(true);

    await form.getByRole("button", { name: "Drop: Phase c" }).click();
    await form.getByRole("button", { name: "Phase a", exact: true }).click();
    await form.getByLabel("Objective").fill("Every table is there.");
    await form.getByLabel("Acceptance").fill("It can be seen\n\nAnd run");
    await form.getByRole("button", { name: "Add a phase" }).click();
    await form.getByRole("button", { name: "Approve as edited" }).click();
    await form.getByRole("alert").getByText("Phase 3 needs a title and an objective.").waitFor();
    await form.getByRole("textbox", { name: "Title" }).fill("Schema");
    await form.getByLabel("Kind of work").fill("data/schema");
    await form.getByLabel("Objective").fill("The schema is there.");
    for (let up = 0; up < 2; up += 1) await form.getByRole("button", { name: "Move up: Schema" }).click();
    await form.getByRole("button", { name: "Phase a", exact: true }).click();
    await form.getByRole("group", { name: "Other phases" }).getByLabel("Schema").check();
    expect(await broken()).toEqual([]);

    // It is kept in this tab until it is sent.
    await page.reload();
    await card.getByRole("button", { name: "Edit before approving" }).click();
    expect(await rows.count()).toBe(3);
    await form.getByRole("button", { name: "Approve as edited" }).click();
    await form.waitFor({ state: "hidden" });
    const done = await until(
      () => missionOf(url, directory, missionID),
      ({ finished }) => finished !== null,
    );
    expect(
      done.plan.map(({ id, phase, objective, acceptance, after, state: at }) => [
        id,
        phase,
        objective,
        acceptance,
        after,
        at,
      ]),
    ).toEqual([
      ["schema", "data/schema", "The schema is there.", [], [], "done"],
      ["a", "a", "Every table is there.", ["It can be seen", "And run"], ["schema"], "ready"],
      ["b", "b", "b is there.", [], [], "ready"],
    ]);
    expect(await page.getByRole("log").innerText()).toContain("The user dropped phase c from the plan");

    // What is done is not written over; what has not begun is, and waits for a person again.
    const column = page.getByRole("region", { name: "Plan" });
    await column.getByRole("button", { name: "Edit plan" }).click();
    await form.getByRole("button", { name: "Schema", exact: false }).first().click();
    await form.getByText("Done: more work is a phase of its own").waitFor();
    expect(await form.getByRole("button", { name: "Drop: Schema" }).isDisabled()).toBe(true);
    await form.getByRole("button", { name: "Drop: Phase b" }).click();
    await form.getByRole("button", { name: "Save", exact: true }).click();
    await form.waitFor({ state: "hidden" });
    await card.getByText("What differs from the plan that was approved last: 1 dropped").waitFor();
    await card.getByRole("button", { name: "Approve", exact: true }).click();
    await card.waitFor({ state: "hidden" });
    expect(complaints).toEqual([]);
  });

  test("a plan that was changed while somebody edited it is not written over", async () => {
    stage.play("stale", { mission: (turn) => (turn === 0 ? { calls: [plan("a", "b")] } : { text: "So?" }) });
    const directory = stage.project();
    const { url } = stage.service;
    const { missionID } = await wake(url, directory, { text: "[stale]", approve: ["plan"] });
    await page.goto(`${url}/ui/mission/${missionID}`);
    const card = page.getByRole("region", { name: "The Mission is waiting for you" });
    await card.getByRole("button", { name: "Edit before approving" }).click();
    const form = page.getByRole("dialog", { name: "Edit plan" });
    await form.getByRole("button", { name: "Drop: Phase b" }).click();
    const { planRevision: revision } = await missionOf(url, directory, missionID);
    const phases = ["a", "b", "c"].map((id) => ({ id, title: `Phase ${id}`, objective: `${id} is there.` }));
    expect((await post(url, `/mission/${missionID}/plan`, directory, { phases, revision })).status).toBe(200);
    await form.getByRole("button", { name: "Save", exact: true }).click();
    await form.getByText("The plan was changed while you edited it. Nothing was saved.").waitFor();
    const plain = await missionOf(url, directory, missionID);
    expect(plain.plan.map(({ id }) => id)).toEqual(["a", "b", "c"]);
    await form.getByRole("button", { name: "Start from the plan as it is now" }).click();
    await form.getByRole("button", { name: "Drop: Phase c" }).click();
    await form.getByRole("button", { name: "Save", exact: true }).click();
    await form.waitFor({ state: "hidden" });
    const saved = await until(
      () => missionOf(url, directory, missionID),
      ({ pending }) => pending.length === 1,
    );
    expect(saved.plan.map(({ id }) => id)).toEqual(["a", "b"]);
  });

  test("the form for a new Mission has approvals, checks and attachments", async () => {
    stage.play("whole", { mission: () => ({ text: "Read." }) });
    const directory = stage.project();
    const { url } = stage.service;
    await page.goto(`${url}/ui/missions?project=${directory}`);
    await page.getByLabel("The goal").fill("All of it. [whole]");
    for (const of of ["The plan", "New squads", "What lands"])
      await page.getByRole("group", { name: "Ask me to approve" }).getByLabel(of).check();
    await page.getByRole("group", { name: "Ask me to approve" }).getByLabel("New squads").uncheck();
    await page.getByLabel("Checks of the whole").fill("npm test\n\ntest -f b.txt");
    const file = { name: "notes.md", mimeType: "text/markdown", buffer: Buffer.from("# Notes\n") };
    await page.getByRole("form", { name: "New Mission" }).locator("input[type=file]").setInputFiles(file);
    await page.getByRole("list", { name: "Attachments" }).getByText("notes.md").waitFor();
    expect(await broken()).toEqual([]);
    await page.getByRole("button", { name: "Start Mission" }).click();
    await page.waitForURL(/\/ui\/mission\//);
    const missionID = /\/ui\/mission\/([^?]+)/.exec(page.url())?.[1] ?? "";
    const mission = await missionOf(url, directory, missionID);
    expect(mission.approve).toEqual(["plan", "landing"]);
    expect(mission.checks.map((check) => ("run" in check ? check.run : check.kind))).toEqual([
      "npm test",
      "test -f b.txt",
    ]);
    expect(mission.attachments.map(({ filename, bytes }) => [filename, bytes])).toEqual([["notes.md", 8]]);
  });
});
