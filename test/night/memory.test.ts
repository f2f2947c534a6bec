import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { type ServiceProcess, startProcess } from "../crash/process.ts";
import { createTask, statusOf } from "../harness/double/hostile-text.ts";
import { stepSlopeOf } from "../harness/growth.ts";
import { makeProject, temporary, until } from "../harness/project.ts";
import { atRest } from "./soak/measure.ts";

/** A service keeps nothing of a Task that has ended, once the newest thousand are known to its cache. */

/** As many states of Tasks as the store's cache holds, and some. */
const warm = 1_050;
/** Rounds that are measured, and Tasks in each. */
const rounds = 7;
const size = 100;
/** KB for each Task; what one leaves behind by mistake is its run, of 9 KB or more. */
const most = 4;

const fence = "```";

test("memory does not grow with the Tasks that have ended; control: one that keeps 9 KB of each is found", {
  timeout: 900_000,
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
  /** KB that each Task added, by what was in use at rest before and after each round. */
  const keptOf = async (what: string): Promise<number> => {
    const points: [tasks: number, kB: number][] = [[begun, await restingKB(service)]];
    for (let round = 0; round < rounds; round += 1) {
      await play(size);
      points.push([begun, await restingKB(service)]);
    }
    const kept = stepSlopeOf(points);
    const all = points.map(([tasks, kB]) => `${tasks}: ${(kB / 1000).toFixed(2)}`).join(", ");
    console.log(`memory, ${what}: ${kept.toFixed(2)} KB kept for each Task (MB after so many: ${all})`);
    return kept;
  };
  await play(warm);
  const kept = await keptOf("as it is");
  service.child.kill("SIGHUP");
  await pause(500);
  const control = await keptOf("control");
  expect(kept).toBeLessThan(most);
  expect(control).toBeGreaterThan(most);
});

const restingKB = async (service: ServiceProcess): Promise<number> => (await atRest(service)) * 1000;
