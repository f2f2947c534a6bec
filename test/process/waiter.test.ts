import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { silent } from "../../src/log.ts";
import type { Command } from "../../src/process/process.ts";
import { createProcesses } from "../../src/process/service.ts";
import { temporary } from "../harness/project.ts";
import { sandboxesHere } from "../harness/sandboxes.ts";
import { night } from "../harness/night.ts";

/** What a command does to the process that reports its end, which has the same user: it holds up nobody but itself. */

/** By day the strongest that is here. */
const sandboxes = (await sandboxesHere()).filter(({ tier }) => tier < 3).slice(0, night ? 2 : 1);

describe.each(sandboxes.map((sandbox) => ({ sandbox, tier: sandbox.tier })))("in tier $tier", ({ sandbox }) => {
  const scene = () => {
    const folder = temporary("sortie-waiter-");
    const tree = join(folder.path, "tree");
    mkdirSync(tree);
    const record = join(folder.path, "data/processes");
    const processes = createProcesses({
      folder: record,
      runID: folder.path,
      keepEnv: process.env,
      sandbox,
      log: silent,
    });
    const place = { tree, at: tree, under: () => [], over: () => [] };
    return {
      processes,
      run: (text: string, timeoutMs: number, more: Partial<Command> = {}) =>
        processes.run(
          "task_1",
          { run: text, cwd: tree, timeoutMs, keepBytes: 1000, signal: new AbortController().signal, ...more },
          place,
        ),
      async [Symbol.asyncDispose]() {
        await processes.stop();
        folder[Symbol.dispose]();
      },
    };
  };
  /** Control: that it is stopped. */
  const state = "while read -r name value; do [ $name = State: ] && echo $value; done </proc/$PPID/status";

  test("stopped: its command ends at its time, and the next one runs", async () => {
    await using at = scene();
    expect(await at.run(`kill -STOP $PPID; sleep 0.3; ${state}; sleep 30`, 1500)).toMatchObject({
      ended: "timeout",
      exitCode: null,
      stdout: expect.stringMatching(/^T/) as string,
    });
    expect(await at.run("echo next", 20_000)).toMatchObject({ ended: "exit", exitCode: 0, stdout: "next\n" });
  });

  test("stopped with all that it may signal: cancel ends it, and so does the end of the Task", async () => {
    await using at = scene();
    const abort = new AbortController();
    const running = [
      at.run("kill -STOP $PPID; echo stopped; kill -STOP -1; sleep 60", 60_000, {
        signal: abort.signal,
        onOutput: () => setTimeout(() => abort.abort(), 400),
      }),
      at.run("sleep 0.2; kill -STOP $PPID; echo stopped; sleep 60", 60_000),
    ] as const;
    expect(await running[0]).toMatchObject({ ended: "aborted", stdout: "stopped\n" });
    await at.processes.killAll("task_1");
    expect(await running[1]).toMatchObject({ ended: "aborted" });
  });

  test("stopped before it has begun, again and again: cancel ends it, and it has not run", async () => {
    await using at = scene();
    // Control: that everything else is stopped, and stays so.
    const other = Promise.withResolvers<void>();
    const stopping = at.run("echo now; while :; do kill -STOP -1; done", 60_000, { onOutput: () => other.resolve() });
    await other.promise;
    // One that was quicker than the next stop has run, and counts for nothing.
    for (let tries = 0; ; tries += 1) {
      let output = "";
      const begun = at.run("echo ran", 60_000, { onOutput: (text) => (output += text) });
      await new Promise((resolve) => setTimeout(resolve, 700));
      if (output !== "" && tries < 20) continue;
      expect(output).toBe("");
      await at.processes.killAll("task_1");
      expect(await Promise.all([stopping, begun])).toMatchObject([
        { ended: "aborted" },
        { ended: "aborted", stdout: "" },
      ]);
      break;
    }
    expect(await at.run("echo next", 20_000)).toMatchObject({ ended: "exit", exitCode: 0, stdout: "next\n" });
  });

  test("killed: the command's output counts, its exit is not known", async () => {
    await using at = scene();
    expect(await at.run("kill -9 $PPID; echo out", 20_000)).toMatchObject({
      ended: "exit",
      exitCode: null,
      stdout: "out\n",
    });
    expect(await at.run("echo next", 20_000)).toMatchObject({ ended: "exit", exitCode: 0, stdout: "next\n" });
  });
});
