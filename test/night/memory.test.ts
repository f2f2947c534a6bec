import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { type ServiceProcess, startProcess } from "../crash/process.ts";
import { createTask, statusOf } from "../harness/double/hostile-text.ts";
import { makeProject, temporary, until } from "../harness/project.ts";

/** A service keeps nothing of a Task that has ended, once the newest thousand are known to its cache. */

/** As many states of Tasks as the store's cache holds, and some. */
const warm = 1_050;
const measured = 500;
const ofControl = 150;
/** KB for each Task; what one leaves behind by mistake is its run, of 10 KB or more. */
const most = 3;

const fence = "```";

test("memory does not grow with the Tasks that have ended; control: one that keeps 8 KB of each is found", {
  timeout: 600_000,
}, async () => {
  using root = temporary("sortie-memory-");
  const config = join(root.path, "config.jsonc");
  const settings = { model: "builtin/rules-1", workspace: { retentionHours: 0 }, sandbox: { tier: 3 } };
  writeFileSync(config, JSON.stringify(settings));
  const env = { SERVICE_DATA_DIR: join(root.path, "data"), SERVICE_CONFIG: config, HOME: root.path };
  const repository = makeProject(join(root.path, "repository"), { "a.txt": "a\n" });
  const folders = [1, 2, 3, 4, 5, 6].map((count) => join(root.path, `plain-${count}`));
  for (const folder of folders) mkdirSync(folder);
  await using service = await startProcess({ ...env, SERVICE_MAX_RUNNING: "12" });

  let begun = 0;
  /** Every twentieth has a worktree, which costs much more time. */
  const play = async (count: number) => {
    const end = begun + count;
    const worker = async () => {
      while (begun < end) {
        begun += 1;
        const inPlace = begun % 20 > 0;
        const directory = inPlace ? (folders[begun % folders.length] ?? "") : repository;
        const request = `Write:\n${fence}txt file=f${inPlace ? begun % 20 : begun}.txt\n${begun}\n${fence}`;
        const taskID = await createTask(service.url, directory, {
          request,
          ...(inPlace ? { isolation: "directory" } : {}),
        });
        const { lifecycleStatus, error } = await until(
          () => statusOf(service.url, taskID),
          ({ status }) => status === "inactive",
          60_000,
        );
        expect(lifecycleStatus, error).toBe("completed");
      }
    };
    await Promise.all(Array.from({ length: 8 }, worker));
  };
  const grownBy = async (count: number) => {
    const before = await restingMB(service);
    await play(count);
    return ((await restingMB(service)) - before) * (1000 / count);
  };
  await play(warm);
  const kept = await grownBy(measured);
  console.log(`memory: ${kept.toFixed(2)} KB kept for each of ${measured} Tasks after ${warm}`);
  service.child.kill("SIGHUP");
  const control = await grownBy(ofControl);
  console.log(`memory, control: ${control.toFixed(2)} KB for each of ${ofControl}`);
  expect(kept).toBeLessThan(most);
  expect(control).toBeGreaterThan(most);
});

/** Once worktrees are gone and connections have closed. */
const restingMB = async (service: ServiceProcess): Promise<number> => {
  let least = Number.POSITIVE_INFINITY;
  for (let look = 0; look < 5; look += 1) {
    await pause(1000);
    least = Math.min(least, await service.heapMB());
  }
  return least;
};
