import { expect, test } from "vitest";
import type { MissionRun } from "../../../src/mission/run.ts";
import { phaseTool, planTool } from "../../../src/mission/tool/plan.ts";
import type { EventData } from "../../../src/protocol/event/event.ts";
import type { ToolContext } from "../../../src/tool/tool.ts";
import { dispatched, missionLog, phase, taskEnded, woken } from "../../harness/mission-log.ts";

/** What the plan may lose while Tasks run. */

type Dispatch = EventData["task.dispatched"];

const sessionID = "ses_1";
const commit = "1".repeat(40);

/** A Mission whose one phase is done, and whose newest Task runs. */
const running = (more: Partial<Dispatch>) => {
  const log = missionLog("branch");
  log.add(...woken(), { type: "plan.written", data: { sessionID, callID: "p", phases: [phase("a")] } });
  log.add(taskEnded(log.add(dispatched("work")).tasks.at(-1)!, "completed", undefined, commit));
  log.add(dispatched("newest", more));
  const run = {
    stream: sessionID,
    store: { state: () => Promise.resolve({ lifecycle: "active", cancel: null }) },
    state: log.state,
    record: (facts: Parameters<typeof log.add>) => Promise.resolve(log.add(...facts)),
    inOrder: <T>(work: () => T) => work(),
  } as unknown as MissionRun;
  const context = { callID: "call_1" } as ToolContext;
  const words = { title: "Also b", objective: "b is there." };
  return {
    add: () => phaseTool(run).run({ id: "b", ...words }, context),
    whole: () => planTool(run).run({ phases: [{ id: "b", ...words }], drop: ["a"] }, context),
    ids: () => log.state().plan.map(({ id }) => id),
  };
};

test.each<[string, Partial<Dispatch>]>([
  ["the branch is merged", { phase: "merge", merge: { branch: "sortie/m", commit, into: "main" } }],
  ["the whole is judged", { phase: "verdict", judges: { commit, base: null, heard: 1 } }],
])("while %s, the plan is written as ever: that Task is of no phase", async (_what, more) => {
  const { add, whole, ids } = running(more);
  expect(await add()).toMatchObject({ outcome: "ok" });
  expect(ids()).toEqual(["a", "b"]);
  expect(await whole()).toMatchObject({ outcome: "ok" });
  expect(ids()).toEqual(["b"]);
});

test.each<[string, Partial<Dispatch>]>([
  ["does its work", {}],
  ["makes its squad", { production: { identity: "squad-sdk", squad: "crew" } }],
])("control: a phase stays whose Task %s", async (_what, more) => {
  const { add, whole, ids } = running(more);
  expect(await whole()).toMatchObject({
    outcome: "error",
    output: expect.stringContaining('Expected the phase "a", whose Task runs, to stay') as string,
  });
  expect(await add()).toMatchObject({ outcome: "ok" });
  expect(ids()).toEqual(["a", "b"]);
});
