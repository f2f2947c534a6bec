import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { at, createTask, logOf, send, settledTask } from "../harness/double/hostile-text.ts";
import { type MockTurn, startMockProvider } from "../harness/double/mock-provider.ts";
import { temporary, until } from "../harness/project.ts";
import { nothingLeft, processesOf, startProcess } from "./process.ts";
import { settingIn } from "./setting.ts";

/** A program that stays to look at edits ends with the service, however that ends, and looks again in the next run. */

const edit = (old: string, fresh: string): MockTurn => ({
  calls: [{ tool: "edit", input: { path: "notes.txt", edits: [{ old, new: fresh }] } }],
});

/** It reports a line of the file that says `bad`, each time that the file changes. */
const watch = `while :; do now=$(cat notes.txt); if [ "$now" != "$seen" ]; then seen=$now; echo begins; grep -n bad notes.txt | sed 's/^/notes.txt:/'; echo ends; fi; sleep 0.05; done`;

test("killed while a checker stays", { timeout: 60_000 }, async () => {
  using root = temporary("sortie-diagnostics-");
  const turns: MockTurn[] = [
    { calls: [{ tool: "read", input: { path: "notes.txt" } }] },
    { ...edit("one", "bad"), latencyMs: 700 },
    edit("two", "worse"),
    { text: "Done." },
  ];
  const provider = await startMockProvider(({ turn }) => turns[turn] ?? { text: "Nothing more." });
  try {
    const diagnostics = [{ name: "words", run: watch, extensions: ["txt"], stays: { begins: "begins", ends: "ends" } }];
    const { dataDir, project, env } = settingIn(root.path, provider.baseURL, { "notes.txt": "one\ntwo\n" }, (own) => ({
      environments: { [own]: { diagnostics } },
    }));
    {
      await using service = await startProcess({ ...env, TEST_KILL_ON: "tool.finished:2" });
      await createTask(service.url, project, { request: "Do it.", checks: [] }).catch(() => undefined);
      await service.gone;
      await nothingLeft(dataDir);
    }
    await using service = await startProcess(env);
    const listed = (await send(service.url, at("/tasks", project))).body as unknown as { taskID: string }[];
    const taskID = listed[0]?.taskID ?? "";
    expect(await settledTask(service.url, taskID)).toMatchObject({ lifecycleStatus: "completed" });
    const results = (await logOf(service.url, taskID)).flatMap(({ type, data }) =>
      type === "tool.finished" && data.tool === "edit" && typeof data.output === "string" ? [data.output] : [],
    );
    expect(results[0]).toContain("[words: new with this edit]\nnotes.txt:1:1 bad");
    // With the turn it has ended, also where the service goes on.
    await until(
      () => Promise.resolve(processesOf(dataDir).map(commandOf)),
      (left) => !left.some((line) => line.includes("grep -n bad")),
    );
  } finally {
    await provider.close();
  }
});

const commandOf = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
};
