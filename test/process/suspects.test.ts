import { join } from "node:path";
import { expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import { createSuspects } from "../../src/process/command/suspects.ts";
import { createProcesses } from "../../src/process/service.ts";
import { temporary, until } from "../harness/project.ts";

/** What is kept of Tasks that ran commands: nothing once their sandboxes are closed. */

test("a Task is forgotten when its run closes its sandboxes, what worked beside it when it ends; control: not before", async () => {
  using root = temporary("sortie-suspects-");
  const suspects = createSuspects();
  const keepEnv = { PATH: process.env["PATH"] ?? "" };
  const processes = createProcesses({ folder: join(root.path, "processes"), keepEnv, log: silent, suspects });
  const { signal } = new AbortController();
  const usual = { cwd: root.path, timeoutMs: 10_000, keepBytes: 100, signal };
  try {
    await processes.run("task_1", { ...usual, run: "true" });
    await processes.run("task_1~", { ...usual, run: "true", unheld: true, apart: "git" });
    expect(suspects.all()).toEqual(["task_1"]);

    const running = processes.run("task_1", { ...usual, run: "sleep 1" });
    await processes.closeSandboxes("task_1");
    expect(suspects.all()).toEqual(["task_1"]);
    await running;

    const stop = new AbortController();
    const talk = { run: "cat", env: {}, home: undefined, network: false, signal: stop.signal };
    await processes.startInteractive("task_1", root.path, talk);
    await processes.closeSandboxes("task_1");
    expect(suspects.all()).toEqual(["task_1"]);
    stop.abort();
    await until(
      async () => {
        await processes.closeSandboxes("task_1");
        return suspects.all();
      },
      (all) => all.length === 0,
    );
    expect(await processes.killAll("task_1")).toEqual([]);
  } finally {
    await processes.stop();
  }
});
