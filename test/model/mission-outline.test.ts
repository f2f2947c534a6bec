import { describe, expect, test } from "vitest";
import type { PromptMessage } from "../../src/model/model.ts";
import { planMission } from "../../src/model/builtin/role/mission.ts";
import { outlineOf } from "../../src/model/builtin/role/mission-outline.ts";

/** A Mission's text by the embedded rules. */

const items = (text: string) => outlineOf(text).items;

describe("the list", () => {
  test("numbers and check boxes are items, with what stands below them; headings only where there are none", () => {
    expect(items("Do this:\n1. run the tests\n2) run the build (after 1)\n- [ ] run the lint (after 1, 2)")).toEqual([
      { title: "run the tests", request: "run the tests", after: [], squad: undefined },
      { title: "run the build", request: "run the build", after: [1], squad: undefined },
      { title: "run the lint", request: "run the lint", after: [1, 2], squad: undefined },
    ]);
    expect(items("# One\nrun the tests\n\n# Two (squad: docs)\nrun the build\n")).toEqual([
      { title: "One", request: "run the tests", after: [], squad: undefined },
      { title: "Two", request: "run the build", after: [], squad: "docs" },
    ]);
    expect(items("# Title\n1. run the tests")).toHaveLength(1);
  });

  test("a block belongs to its item, and what looks like an item in it is none", () => {
    const [first, second] = items(
      "1. Write it\n\n   ```md file=a.md\n   1. inside\n   # inside\n   ```\n\n2. run the tests\n",
    );
    expect(first).toMatchObject({ title: "Write it", request: "```md file=a.md\n1. inside\n# inside\n```" });
    expect(second).toMatchObject({ title: "run the tests" });
  });

  test("a text without a list is one item", () => {
    expect(items("- run the tests\n- run the build")).toEqual([
      { title: "run the tests", request: "- run the tests\n- run the build", after: [], squad: undefined },
    ]);
    expect(items("  \n")).toEqual([]);
  });

  test("numbers that name no other item are told", () => {
    expect(outlineOf("1. run the tests (after 1)\n2. run the build (after 3)").problems).toEqual([
      "item 1: expected (after N) to name another item of 1 to 2, got 1",
      "item 2: expected (after N) to name another item of 1 to 2, got 3",
    ]);
  });

  test("a roster stands anywhere; of 2 or 10 it is refused", () => {
    const roster = (count: number) =>
      `1. run the tests (squad: crew)\n\nSquad crew:\n${Array.from({ length: count }, (_, at) => `- a-${at}: Duty ${at}.`).join("\n")}\n`;
    expect(outlineOf(roster(3))).toEqual({
      items: [{ title: "run the tests", request: "run the tests", after: [], squad: "crew" }],
      rosters: [{ squad: "crew", agents: [0, 1, 2].map((at) => ({ name: `a-${at}`, duty: `Duty ${at}.` })) }],
      problems: [],
    });
    for (const count of [2, 10])
      expect(outlineOf(roster(count)).problems).toEqual([
        `squad crew: expected 3 to 9 lines \`- agent-name: duty\`, got ${count}`,
      ]);
  });
});

describe("what comes next", () => {
  const user = (text: string, source = "user"): PromptMessage => ({
    role: "user",
    messageID: "msg_1",
    source,
    text,
    files: [],
  });
  const turn = (tool: string, input: unknown, output: string, outcome: "ok" | "error" = "ok"): PromptMessage[] => [
    { role: "assistant", messageID: "msg_2", text: "", calls: [{ callID: "call_1", tool, input }] },
    { role: "tool", results: [{ callID: "call_1", tool, outcome, output, exitCode: null }] },
  ];
  const text = "1. run the tests\n2. run the build (after 1)";
  const planned = { phases: [{ id: "item-1" }, { id: "item-2" }] };
  const standing = (one: string, two: string, running: string[] = []) =>
    JSON.stringify({
      phases: [
        { id: "item-1", state: one },
        { id: "item-2", state: two },
      ],
      running,
    });

  test("a plan, what is ready, a wait, a look after each end, a last word", () => {
    expect(planMission([user(text)])).toMatchObject({ kind: "calls", calls: [{ tool: "plan" }] });
    const written = [user(text), ...turn("plan", planned, "Written: item-1, item-2.")];
    // What `plan` answers are words; where each phase stands, `task_status` says.
    expect(planMission(written)).toEqual({ kind: "calls", calls: [{ tool: "task_status", input: {} }] });
    const begun = [...written, ...turn("task_status", {}, standing("ready", "waiting"))];
    expect(planMission(begun)).toMatchObject({
      calls: [{ tool: "dispatch", input: { phase: "item-1", request: "run the tests" } }],
    });
    const out = [...begun, ...turn("dispatch", {}, "{}")];
    expect(planMission(out)).toMatchObject({ kind: "done" });
    const woken = [...out, user("Task … ended completed.", "service")];
    expect(planMission(woken)).toEqual({ kind: "calls", calls: [{ tool: "task_status", input: {} }] });
    const looked = (one: string, two: string) =>
      planMission([...woken, ...turn("task_status", {}, standing(one, two))]);
    expect(looked("done", "ready")).toMatchObject({ calls: [{ tool: "dispatch", input: { phase: "item-2" } }] });
    expect(looked("done", "done")).toMatchObject({ calls: [{ tool: "finish", input: { outcome: "done" } }] });
    expect(looked("failed", "waiting")).toMatchObject({ calls: [{ tool: "finish", input: { outcome: "blocked" } }] });
  });

  test("a refused dispatch is reported, not tried again", () => {
    const messages = [
      user(text),
      ...turn("plan", planned, "Written: item-1, item-2."),
      ...turn("task_status", {}, standing("ready", "waiting")),
      ...turn("dispatch", {}, "The catalog is broken.", "error"),
    ];
    expect(planMission(messages)).toMatchObject({
      calls: [
        { tool: "finish", input: { outcome: "blocked", summary: expect.stringContaining("The catalog is broken.") } },
      ],
    });
  });

  test("what the rules cannot do is told before anything is dispatched", () => {
    expect(planMission([user("Make everything faster.")])).toMatchObject({
      kind: "failed",
      code: "needs_model",
      message: expect.stringMatching(/^NEEDS_MODEL.*Make everything faster/),
    });
  });
});
