import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { type Model, type ModelReply, noUsage } from "../../src/model/model.ts";
import { createHeldDisk, type HeldDisk } from "../harness/held-disk.ts";
import { makeProject, temporary } from "../harness/project.ts";
import { openTaskService } from "../harness/task-service.ts";

/** What of a step the disk must have before the step goes on. */

const calling = (tool: string, input: object): ModelReply => ({
  ok: true,
  text: "",
  calls: [{ tool, input }],
  finish: "calls",
  usage: noUsage,
});

test("a command begins when the disk has its intent; what only reads does not wait, nor does the model for a result", async () => {
  using root = temporary("sortie-on-disk-");
  using project = temporary("sortie-on-disk-project-");
  const directory = makeProject(join(project.path, "p"), { "a.txt": "one\n" });
  const answers: ((reply: ModelReply) => void)[] = [];
  const model: Model = {
    ref: "test/held",
    retries: true,
    window: 100_000,
    takes: { images: false, pdf: false, tools: true },
    reply({ signal }) {
      const { promise, resolve, reject } = Promise.withResolvers<ModelReply>();
      answers.push(resolve);
      signal.addEventListener("abort", () => reject(signal.reason as Error));
      return promise;
    },
  };
  let disk: HeldDisk | undefined;
  const sync = (file: string) => (disk ??= createHeldDisk(file));
  const service = await openTaskService({ folder: root.path, model, sync });
  const waits = () => disk?.waits.length;
  const asked = (count: number) => expect.poll(() => answers.length, { timeout: 10_000 }).toBe(count);
  try {
    const input = { request: "do it", productPillar: "code" as const, checks: [] };
    const { taskID } = (await service.tasks.create(directory, { ...input, isolation: "directory" })).body;
    await asked(1);
    const types = async () => (await service.store.read(taskID)).map(({ type }) => type);
    await expect.poll(types).toContain("workspace.prepared");

    disk?.hold();
    answers[0]?.(calling("shell", { command: "touch begun" }));
    await expect.poll(waits).toBe(1);
    expect((await types()).at(-1)).toBe("tool.started");
    await pause(100);
    expect(existsSync(join(directory, "begun"))).toBe(false);
    disk?.waits[0]?.resolve();
    // Control: it was the disk that the command waited for. Its result is written, and the disk does not have it yet.
    await asked(2);
    expect(existsSync(join(directory, "begun"))).toBe(true);
    expect(waits()).toBe(2);
    expect((await service.store.state(taskID))?.open).toHaveLength(1);
    disk?.waits[1]?.resolve();
    await expect.poll(async () => (await service.store.state(taskID))?.open).toEqual([]);

    // The disk is asked once for what a reading call says: its result waits for its own intent only.
    answers[1]?.(calling("read", { path: "a.txt" }));
    await expect.poll(waits).toBe(3);
    await pause(100);
    expect(answers).toHaveLength(2);
    disk?.waits[2]?.resolve();
    await asked(3);
    expect(waits()).toBe(4);
    expect((await service.store.state(taskID))?.open).toHaveLength(1);
  } finally {
    disk?.letGo();
    await service.crash();
  }
});
