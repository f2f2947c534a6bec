import { expect, test } from "vitest";
import type { MissionRun } from "../../../src/mission/run.ts";
import { messageTool } from "../../../src/mission/tool/watch-task.ts";
import type { EventData } from "../../../src/protocol/event/event.ts";
import type { ToolContext } from "../../../src/tool/tool.ts";
import { dispatched, missionLog, phase, taskEnded, woken } from "../../harness/mission-log.ts";

/** Which of its Tasks a Mission's agent may say something to. */

const sessionID = "ses_1";
const commit = "1".repeat(40);

/** It says something to its newest Task. `sent`: to which Tasks that went. */
const say = async (more: Partial<EventData["task.dispatched"]>, hasEnded: boolean) => {
  const log = missionLog("branch");
  log.add(...woken(), { type: "plan.written", data: { sessionID, callID: "p", phases: [phase("a")] } });
  const task = log.add(dispatched("newest", more)).tasks.at(-1)!;
  if (hasEnded) log.add(taskEnded(task, "completed"));
  const sent: string[] = [];
  const message = (_directory: string, taskID: string) => {
    sent.push(taskID);
    return Promise.resolve({ body: { disposition: hasEnded ? "restarted" : "steered" } });
  };
  const run = {
    stream: sessionID,
    state: log.state,
    record: () => Promise.resolve(true),
    tasks: { message },
  } as unknown as MissionRun;
  const given = { task: "task_newest", text: "Your point is wrong: accept it.", checks: [] };
  const { outcome, output } = await messageTool(run).run(given, { callID: "call_1" } as ToolContext);
  return { outcome, output, sent };
};

test.each([
  ["that judges", { phase: "verdict", judges: { commit, base: null, heard: 1 } }, "which judges the whole", "`finish`"],
  [
    "that merges",
    { phase: "merge", merge: { branch: "sortie/m", commit, into: "main" } },
    "which merges sortie/m into main",
    "not yours to decide",
  ],
] as const)(
  "a Task of the service's own %s hears nothing of it, while it runs and afterwards",
  async (_what, more, duty, next) => {
    for (const hasEnded of [false, true]) {
      const { outcome, output, sent } = await say(more, hasEnded);
      expect([outcome, sent]).toEqual(["error", []]);
      expect(output).toContain(`got task_newest, ${duty} for the service`);
      expect(output).toContain(next);
    }
  },
);

test.each([
  ["does a phase's work", {}],
  ["makes a squad", { production: { identity: "squad-sdk", squad: "crew" } }],
] as const)("control: one that %s does", async (_what, more) => {
  for (const hasEnded of [false, true])
    expect(await say(more, hasEnded)).toMatchObject({ outcome: "ok", sent: ["task_newest"] });
});
