import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTask, logOf, makeLab, post, settledTask, shell } from "../../harness/double/hostile-text.ts";
import type { MockTurn } from "../../harness/double/mock-provider.ts";
import { git, makeProject } from "../../harness/project.ts";
import { startService, type TestService } from "../../harness/service.ts";

/** What an agent gives up ends at once, with its reason, once something red has shown it. */

let lab: Awaited<ReturnType<typeof makeLab>>;
let service: TestService;
beforeAll(async () => {
  lab = await makeLab();
  service = await startService(join(lab.root, "data"), { SERVICE_CONFIG: lab.config });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await lab[Symbol.asyncDispose]();
});

const giveUp: MockTurn = {
  calls: [{ tool: "give_up", input: { why: "The check wants x.txt to be and not to be.", tried: "Both." } }],
};
/** Nobody can meet it. */
const impossible = [{ name: "both", kind: "command", run: "test -e x.txt && test ! -e x.txt" }];
const write = (path: string): MockTurn => ({ calls: [{ tool: "write", input: { path, content: "x\n" } }] });

const play = async (turns: MockTurn[]) => {
  const directory = makeProject(lab.folder(), { "a.txt": "one\n" });
  const taskID = await createTask(service.url, directory, { ...lab.request(turns), checks: impossible });
  const task = await settledTask(service.url, taskID);
  const log = await logOf(service.url, taskID);
  const results = log.flatMap((frame) => (frame.type === "tool.finished" ? [frame.data] : []));
  const checked = log.filter((frame) => frame.type === "check.finished").length;
  return { directory, taskID, task, results, checked };
};

test("refused before anything was red, it ends the Task after it; control: without it the rounds are used up", async () => {
  const { directory, task, results, checked } = await play([giveUp, write("x.txt"), shell("false"), giveUp]);
  expect(results.map(({ tool, outcome }) => [tool, outcome])).toEqual([
    ["give_up", "error"],
    ["write", "ok"],
    ["shell", expect.any(String)],
    ["give_up", "ok"],
  ]);
  expect(task).toMatchObject({
    lifecycleStatus: "failed",
    error: "The agent gave up: The check wants x.txt to be and not to be.\n\nTried: Both.",
    errorInfo: { code: "given_up", retryable: false },
  });
  expect(checked).toBe(0);
  // What it did stays on its branch, and nothing of it in the project.
  expect(git(directory, "show", `${task.git.branch}:x.txt`)).toBe("x");
  expect(git(directory, "status", "--short")).toBe("");

  const without = await play([write("x.txt"), shell("false"), { text: "Done." }]);
  expect(without.task.errorInfo?.code).toBe("checks_failed");
  expect(without.checked).toBeGreaterThan(0);
});

test("a red check of the service's is enough; a green command is not", async () => {
  const red = await play([write("x.txt"), { text: "Done." }, giveUp]);
  expect([red.task.errorInfo?.code, red.checked]).toEqual(["given_up", 1]);
  const green = await play([shell("true"), giveUp, { text: "Done." }]);
  expect(green.results[1]?.outcome).toBe("error");
  expect(green.task.errorInfo?.code).not.toBe("given_up");
});

test("a message goes on, and the next attempt has to see something red of its own", async () => {
  const { directory, taskID, task } = await play([
    shell("false"),
    giveUp,
    giveUp,
    { text: "Done." },
    { text: "Done." },
    { text: "Done." },
    { text: "Done." },
  ]);
  expect(task.errorInfo?.code).toBe("given_up");
  const again = await post(service.url, `/task/${taskID}/message`, directory, {
    source: "api",
    text: "Try once more.",
  });
  expect(again.body["disposition"]).toBe("restarted");
  const second = await settledTask(service.url, taskID);
  const refused = (await logOf(service.url, taskID)).flatMap((frame) =>
    frame.type === "tool.finished" && frame.data.tool === "give_up" ? [frame.data.outcome] : [],
  );
  expect(refused).toEqual(["ok", "error"]);
  expect([second.attempt, second.errorInfo?.code]).toEqual([2, "checks_failed"]);
});
