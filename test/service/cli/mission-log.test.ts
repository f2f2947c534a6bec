import { afterAll, beforeAll, expect, test } from "vitest";
import {
  dispatch,
  finish,
  missionOf,
  openStage,
  plan,
  restOf,
  type Stage,
  turns,
  wake,
} from "../../harness/double/missions.ts";
import { until } from "../../harness/project.ts";
import { sortieIn } from "../../harness/sortie.ts";

/** `sortie mission log`: a Mission's log as its story. */

let stage: Stage;
let directory = "";
beforeAll(async () => {
  stage = await openStage();
  directory = stage.project();
});
afterAll(() => stage[Symbol.asyncDispose]());

const sortie = (...args: string[]) => sortieIn(() => ({ url: stage.service.url, directory }))("mission", ...args);

test("tells what was said, planned, refused, approved, dispatched, verified and ended, by titles", {
  timeout: 60_000,
}, async () => {
  stage.play("told", {
    mission: turns(
      { text: "I look at it first.", calls: [plan("a", "b"), dispatch("a", "Write it. [told]")] },
      { text: "So?" },
      { calls: [{ tool: "phase", input: { id: "b", drop: true } }] },
      { text: "And now?" },
      { calls: [dispatch("a", "Write it. [told]", { title: "Write the file" })] },
      { calls: [finish("done", "All of it\nis there.")] },
    ),
    task: turns({ calls: [{ tool: "write", input: { path: "a.md", content: "a\n" } }] }, { text: "Wrote it." }),
  });
  const body = { text: "One file, please. [told]", approve: ["plan"], checks: ["test -f a.md"] };
  const { missionID } = await wake(stage.service.url, directory, body);
  const asks = (before: string) =>
    until(
      () => missionOf(stage.service.url, directory, missionID),
      ({ pending: [ask] }) => ask !== undefined && ask.id !== before,
    );
  const { pending } = await asks("");
  await sortie("answer", missionID, "Without b.", "--deny");
  await asks(pending[0]?.id ?? "");
  await sortie("answer", missionID, "--allow");
  expect(await restOf(stage.service.url, directory, missionID)).toMatchObject({ state: "done" });

  const { code, out } = await sortie("log", missionID);
  expect(code).toBe(0);
  const lines = out.trimEnd().split("\n");
  for (const line of lines) expect(line).toMatch(/^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ {2}\S/);
  const words = lines.map((line) => line.slice(22).replaceAll(/\b[0-9a-f]{10}\b/g, "COMMIT"));
  expect(words).toEqual([
    "Begins: One file, please. [told]",
    "User: One file, please. [told]",
    "Its agent: I look at it first.",
    'Plans "Phase a"',
    'Plans "Phase b"',
    expect.stringMatching(/^Its dispatch was refused: The user approves the plan before anything is dispatched/),
    "Its agent: So?",
    "The Mission asks for your approval: Carry out this plan? It has 2 phases.",
    "The plan is refused (cli): Without b.",
    'Drops "Phase b" from the plan',
    "Its agent: And now?",
    "The Mission asks for your approval: Carry out this plan? It has 1 phase.",
    "The plan is approved (cli)",
    expect.stringMatching(/^Dispatches "Write the file" for "Phase a" to the squad base: a general one, because /),
    'Task "Write the file" is completed, landed as COMMIT',
    "The checks of the whole passed on COMMIT",
    "Done, verified: All of it is there.",
  ]);
  expect(out).not.toMatch(/task_|call_|ask_|msg_/);
  const told = (await sortie("log", missionID, "--json")).out.trimEnd().split("\n");
  expect(told.map((line) => (JSON.parse(line) as { text: string }).text)).toHaveLength(lines.length);
});
