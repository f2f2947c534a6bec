import { afterAll, beforeAll, expect, test } from "vitest";
import {
  dispatch,
  eventsOf,
  finish,
  openStage,
  plan,
  replan,
  restOf,
  type Stage,
  turns,
  wake,
} from "../../harness/double/missions.ts";

/** The words of a plan: shown whole, changed phase by phase, and not lost by a call that leaves them out. */

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage[Symbol.asyncDispose]());

const phase = (input: object) => ({ tool: "phase", input });
const status = (input: object = {}) => ({ tool: "task_status", input });

test("one phase is added, changed, moved or dropped without the others; the plan is shown with all its words", {
  timeout: 60_000,
}, async () => {
  const said: string[] = [];
  const hear: (made: object[]) => (turn: number, request: unknown, newest: string) => { calls: never[] } =
    (made) => (_turn, _request, newest) => {
      said.push(newest);
      return { calls: made as never[] };
    };
  stage.play("words", {
    mission: turns(
      { calls: [plan("a", { id: "b", after: ["a"] }), dispatch("a", "Write a.txt. [words]")] },
      { text: "Runs." },
      hear([
        phase({ id: "b", objective: "Other words.", acceptance: ["It is seen"] }),
        phase({ id: "c", title: "Third", objective: "c is there.", before: "b" }),
        phase({ id: "d", title: "Fourth", objective: "d is there." }),
        phase({ id: "d", drop: true }),
        phase({ id: "e", title: "No objective" }),
        phase({ id: "a", drop: true }),
        phase({ id: "z", drop: true }),
        phase({ id: "c", before: "c" }),
      ]),
      hear([plan("a"), status()]),
      hear([replan(["c"], "a", { id: "b" }), finish("blocked", "Enough.")]),
      hear([finish("blocked", "Enough.")]),
    ),
    task: (turn) =>
      turn === 0
        ? { calls: [{ tool: "write", input: { path: "a.txt", content: "made\n" } }] }
        : { text: "It is all there." },
  });
  const directory = stage.project();
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: "[words]" });
  const mission = await restOf(url, directory, missionID, 50_000);
  const [, edited = "", left = ""] = said;
  // What it wrote is not given back to it: each answer is in few words, however many phases there are.
  expect(edited).toContain(
    "Written: c.\nThe plan in its order: a, c, b.\nIn the state done: a.\nIn the state ready: c, b.",
  );
  expect(edited).toContain("Dropped: d.\nThe plan in its order: a, c, b.");
  expect(edited).not.toContain("Other words.");
  expect(edited).toContain(
    'Expected a title and an objective for the new phase "e", got no objective. If you meant a phase of the plan, they are: a, c, b. The plan is as it was.',
  );
  expect(edited).toContain(
    'Expected no phase to start from one that is dropped, but b has "a" in `after`: change that first. The plan is as it was.',
  );
  expect(edited).toContain('Expected the id of a phase of the plan (a, c, b), got "z". The plan is as it was.');
  expect(edited).toContain('in `before`, got "c"');
  expect(left).toContain(
    'these are in neither: c ("Third", ready), b ("Phase b", ready). The plan is as it was. One phase alone is added or changed with `phase`.',
  );
  const shown = JSON.parse(left.slice(left.indexOf("{\n"))) as { phases: Record<string, unknown>[] };
  expect(shown.phases).toMatchObject([
    {
      id: "a",
      title: "Phase a",
      objective: "a is there.",
      state: "done",
      tasks: [{ now: "completed", landed: mission.tasks[0]?.git.landedCommit }],
    },
    { id: "c", title: "Third", phase: "c", objective: "c is there.", state: "ready", tasks: [] },
    { id: "b", objective: "Other words.", acceptance: ["It is seen"], after: ["a"], state: "ready" },
  ]);
  expect(mission.plan.map(({ id }) => id)).toEqual(["a", "b"]);
  const facts = (await eventsOf(url, directory, missionID)).flatMap(({ type, data }) =>
    type === "phase.written" ? [(data["phase"] as { id: string }).id] : type.startsWith("p") ? [type] : [],
  );
  expect(facts).toEqual(["a", "b", "b", "c", "plan.ordered", "d", "phase.dropped", "phase.dropped", "b"]);
});

test("a plan too long to be shown whole has the words of those that are asked for", async () => {
  let shown = "";
  const phases = Array.from({ length: 120 }, (_, index) => ({
    id: `p-${index}`,
    title: `Phase ${index}`,
    objective: `${"word ".repeat(100)}${index}.`,
  }));
  stage.play("long", {
    mission: turns(
      {
        calls: [
          { tool: "plan", input: { phases } },
          status({ phases: ["p-7"] }),
          { tool: "recommend", input: { phase: "p-7" } },
        ],
      },
      (_turn, _request, newest) => {
        shown = newest;
        return { calls: [finish("blocked", "Enough.")] };
      },
    ),
  });
  const directory = stage.project();
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: "[long]" });
  expect((await restOf(url, directory, missionID)).plan).toHaveLength(120);
  // Both go by the plan of the same reply.
  expect(shown).toMatch(/"production": "[^"]+"/);
  expect(shown).toContain("word 7.");
  expect(shown).not.toContain("word 8.");
  expect(shown).toContain('"title": "Phase 8",\n   "words": "left out: name it in `phases`"');
});

test("of a plan of hundreds an answer names some, and what is asked for is shown whole; one more is refused", {
  timeout: 60_000,
}, async () => {
  const phases = Array.from({ length: 500 }, (_, index) => ({
    id: `phase-${index}`,
    title: `The phase of the number ${index}`,
    objective: `Objective ${index}.`,
  }));
  const told: string[] = [];
  const steps = [
    [{ tool: "plan", input: { phases } }],
    [
      phase({ id: "phase-250", objective: "Another one." }),
      phase({ id: "more", title: "More", objective: "It is there." }),
      finish(),
      status({ phases: ["phase-250"] }),
    ],
    [finish("blocked", "Enough.")],
  ];
  stage.play("hundreds", {
    mission: (_turn, _request, newest) => {
      told.push(newest);
      return { calls: steps[told.length - 1] ?? [] };
    },
  });
  const directory = stage.project();
  const { missionID } = await wake(stage.service.url, directory, { text: "[hundreds]" });
  const mission = await restOf(stage.service.url, directory, missionID, 50_000);
  expect(mission.plan).toHaveLength(500);
  const [, whole = "", changed = ""] = told;
  expect(whole.length).toBeLessThan(3_000);
  expect(whole).toMatch(/^Written: phase-0, .*, phase-39 and 460 more\.$/m);
  const [one = "", answers = ""] = changed.split("Expected at most 500 phases, got 501.");
  expect(one).toMatch(/^Written: phase-250\.\nThe plan in its order: phase-0, .* and 460 more\.\nIn the state ready: /);
  expect(one.length).toBeLessThan(2_000);
  expect(answers).toMatch(/these are not: phase-0 \(ready\), .* and 460 more\./);
  const shown = JSON.parse(answers.slice(answers.indexOf("{\n"))) as {
    phases: object[];
    others: Record<string, string>;
  };
  expect(shown.phases).toMatchObject([{ id: "phase-250", objective: "Another one.", state: "ready" }]);
  expect(shown.others["ready"]?.split(", ")).toHaveLength(499);
});
