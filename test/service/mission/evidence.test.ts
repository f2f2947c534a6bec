import { expect, test } from "vitest";
import { textOf } from "../../harness/double/mock-provider.ts";
import {
  dispatch,
  eventsOf,
  finish,
  openStage,
  plan,
  restOf,
  type Say,
  taskIn,
  turns,
  wake,
} from "../../harness/double/missions.ts";

/** What a Mission's agent sees of a Task: a red check's last lines, an artifact's text; and that it may hand one on. */

const evidence = (task: string | undefined, part: string, more: object = {}) => ({
  tool: "task_evidence",
  input: { task, part, ...more },
});

test("red checks with their last lines, artifacts with their text; a later Task is given one by its id", {
  timeout: 60_000,
}, async () => {
  await using stage = await openStage({}, { limits: { checkRounds: 1 } });
  const heard: string[] = [];
  let artifactID = "";
  let given = "";
  let red: string | undefined;
  const hear =
    (say: (newest: string) => ReturnType<Say>): Say =>
    (_turn, _request, newest) => {
      heard.push(newest);
      return say(newest);
    };
  stage.play("look", {
    mission: turns(
      { calls: [plan("r", "a", { id: "b", after: ["a"] })] },
      { calls: [dispatch("r", "Red. [look]", { checks: ["seq 1 50; echo this is why; exit 3"] })] },
      { text: "Runs." },
      hear((newest) => {
        red = taskIn(newest);
        return { calls: [evidence(red, "checks"), evidence(red, "artifacts")] };
      }),
      hear(() => ({ calls: [dispatch("a", "Report. [look]")] })),
      (_turn, _request, newest) => ({ calls: [evidence(taskIn(newest), "artifacts")] }),
      hear((newest) => {
        artifactID = /art_[0-9a-z]{26}/.exec(newest)?.[0] ?? "";
        const task = taskIn(newest);
        return {
          calls: [
            evidence(task, "artifacts", { artifact: artifactID }),
            evidence(task, "artifacts", { artifact: "art_00000000000000000000000000" }),
            evidence("task_00000000000000000000000000", "diff"),
            { tool: "task_cancel", input: { task, reason: "Not needed." } },
            { tool: "task_answer", input: { task } },
            { tool: "task_status", input: { tasks: [task], lookInMinutes: 5 } },
            finish("done", "Over.", { wakeInMinutes: 5 }),
          ],
        };
      }),
      hear(() => ({ calls: [dispatch("b", "Go on. [look]", { attachments: [artifactID] })] })),
      { calls: [finish("blocked", "As far as it goes.")] },
    ),
    task: (turn, { first, body }) => {
      if (first.startsWith("Go on") && turn === 0)
        given = body.messages.map(({ content }) => textOf(content)).join("\n");
      if (!first.startsWith("Report")) return { text: "Done." };
      return (
        [
          { calls: [{ tool: "write", input: { path: "report.md", content: "Seven were found.\n" } }] },
          { calls: [{ tool: "artifact", input: { path: "report.md", title: "What was found" } }] },
        ][turn] ?? { text: "Done." }
      );
    },
  });
  const directory = stage.project();
  const { url } = stage.service;
  const { missionID } = await wake(url, directory, { text: "[look]" });
  const mission = await restOf(url, directory, missionID, 50_000);
  expect(mission.tasks.map(({ lifecycleStatus }) => lifecycleStatus)).toEqual(["failed", "completed", "completed"]);
  expect(heard[0]).toContain("ended failed");
  const [, seen = "", listed = "", read = ""] = heard;
  expect(seen).toContain(`<data from="${red} checks">`);
  expect(seen).toMatch(/"state": "failed",\s*"exitCode": 3/);
  expect(seen).toContain("50\\nthis is why");
  // Of the output only its end.
  expect(seen).not.toContain('"1\\n');
  expect(seen).toContain("It kept no artifacts.");
  expect(listed).toContain('"filename": "report.md"');
  expect(read).toContain("Seven were found.");
  expect(read).toContain("Expected the id of one of the Task's artifacts");
  const report = mission.tasks[1]?.taskID;
  for (const words of [
    `Expected a Task of this Mission (${red} of phase r, ${report} of phase a), got "task_00000000000000000000000000".`,
    `Expected a Task that runs, ${report} has ended: it is completed. Nothing is left to cancel; what it landed stays.`,
    "Expected one of answer and pass, got neither. The Task still waits.",
    `Expected ids of running Tasks in \`tasks\` with lookInMinutes (none runs), got ${report}. Nothing was set.`,
    "Expected wakeInMinutes only with the outcome waiting, got done. Nothing was said: leave it out, or say waiting.",
  ])
    expect(read).toContain(words);
  expect(given).toContain("Seven were found.");
  const facts = (await eventsOf(url, directory, missionID)).filter(({ type }) => type === "task.dispatched");
  expect(facts.at(-1)?.data).toMatchObject({ phase: "b", attachments: ["report.md"] });
});
