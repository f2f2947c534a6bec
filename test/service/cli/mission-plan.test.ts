import { afterAll, beforeAll, expect, test } from "vitest";
import { missionOf, openStage, plan, type Stage, turns, wake } from "../../harness/double/missions.ts";
import { until } from "../../harness/project.ts";
import { sortieIn } from "../../harness/sortie.ts";

/** `sortie mission plan`: the plan in words, and what an approval of it is about. */

let stage: Stage;
let directory = "";
beforeAll(async () => {
  stage = await openStage();
  directory = stage.project();
});
afterAll(() => stage[Symbol.asyncDispose]());

const sortie = (...args: string[]) => sortieIn(() => ({ url: stage.service.url, directory }))("mission", ...args);
/** Until it asks for the approval of another plan than `before`. */
const asks = async (missionID: string, before = ""): Promise<string> => {
  const isAsked = ({ pending: [ask] }: Awaited<ReturnType<typeof missionOf>>) => ask !== undefined && ask.id !== before;
  const { pending } = await until(() => missionOf(stage.service.url, directory, missionID), isAsked);
  return pending[0]?.id ?? "";
};

test("shows every phase, then what a changed plan changes, and how it is answered", { timeout: 60_000 }, async () => {
  stage.play("shown", {
    mission: turns(
      { calls: [plan("a", { id: "b", after: ["a"] })] },
      { text: "So?" },
      {
        calls: [
          { tool: "phase", input: { id: "a", objective: "More is there.\nMuch more.", acceptance: ["It is seen."] } },
          { tool: "phase", input: { id: "c", title: "Phase c", phase: "docs", objective: "c is there." } },
          { tool: "phase", input: { id: "b", drop: true } },
        ],
      },
      { text: "Better?" },
    ),
  });
  const { missionID } = await wake(stage.service.url, directory, { text: "[shown]", approve: ["plan"] });
  const first = await asks(missionID);
  const before = await sortie("plan", missionID);
  expect(before.code).toBe(0);
  expect(before.out.replaceAll(/--url [^`\s]+/g, "--url U")).toBe(`1. Phase a  ready
   a
  a is there.

2. Phase b  waiting
   b
  b is there.
  After "Phase a"

Waits for your approval: Carry out this plan? It has 2 phases.
Approve it with \`sortie mission answer ${missionID} --allow --url U\`, or say what to change with \`sortie mission answer ${missionID} --deny "…" --url U\`.
`);
  expect((await sortie("answer", missionID, "--allow")).out).toContain("answered");
  await asks(missionID, first);
  const { out } = await sortie("plan", missionID);
  expect(out.slice(0, out.indexOf("\n\nWaits for"))).toBe(`1. Phase a  ready
   a
  More is there.
  Much more.
  - It is seen.

2. Phase c  ready
   c, docs
  c is there.

What differs from the plan that was approved last
+ new: Phase c
- dropped: Phase b
  b is there.
~ changed: Phase a
    objective
    - a is there.
    + More is there.
    + Much more.
    acceptance
    + It is seen.`);
  expect(out).toContain('1 new ("Phase c"); 1 dropped ("Phase b"); 1 changed ("Phase a")');
  const { plan: phases, planChange, approval } = JSON.parse((await sortie("plan", missionID, "--json")).out);
  expect([phases.length, planChange.added.length, approval.of]).toEqual([2, 1, "plan"]);
  const none = await wake(stage.service.url, directory, { text: "Nothing. [empty]" });
  expect((await sortie("plan", none.missionID)).out).toBe(`${none.missionID} has no plan yet.\n`);
});
