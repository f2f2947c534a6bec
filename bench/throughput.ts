import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createCaller, type TaskOptions } from "./client.ts";
import { type Bench, type Figure, inTurns } from "./figure.ts";
import { rowOf } from "./table.ts";

/** Many small Tasks, ten at a time, each of five commands and an answer. */

const steps = 5;
const concurrency = 10;

/** Tasks per second of a crowd whose members call one after another for the next. */
export const crowd = async (
  bench: Bench,
  url: string,
  count: number,
  directoryOf: (index: number) => string,
  options: TaskOptions,
): Promise<number> => {
  using caller = await createCaller(url);
  const begun = performance.now();
  let next = 0;
  const member = async () => {
    for (let index = next++; index < count; index = next++) {
      const request = `bench shell ${steps} ${bench.id("crowd")}`;
      await caller.settled(await caller.create(directoryOf(index), request, options));
    }
  };
  await Promise.all(Array.from({ length: concurrency }, member));
  return (1000 * count) / (performance.now() - begun);
};

export const throughput: Figure = async (bench) => {
  const count = bench.quick ? 10 : 100;
  const rounds = bench.quick ? 1 : 3;
  await using service = await bench.service("throughput");
  const repository = bench.project("repository", "git");
  const folderOf = (index: number) => bench.project(`folder-${index}`, "plain");
  for (let index = 0; index < count; index += 1) folderOf(index);

  const floor = async () => {
    const ids = Array.from({ length: count }, () => bench.id("floor"));
    const ms = await bench.floor.call("run", { tool: "shell", steps, ids, concurrency, folder: folderOf(0) });
    return (1000 * count) / ms;
  };
  await crowd(bench, service.url, concurrency, folderOf, { isolation: "directory" });
  const inPlace = await inTurns(rounds, floor, () =>
    crowd(bench, service.url, count, folderOf, { isolation: "directory" }),
  );
  const inWorktrees = await inTurns(Math.min(rounds, 2), floor, () =>
    crowd(bench, service.url, count, () => repository, { isolation: "worktree" }),
  );
  return [
    rowOf(`${count} Tasks x 5 shell, 10 at a time`, "tasks/s", inPlace, {
      goal: { kind: "timesFloorAtLeast", value: 0.7 },
      note: "in directories of their own, as the floor",
    }),
    rowOf(`${count} Tasks x 5 shell, worktrees`, "tasks/s", inWorktrees, {
      goal: { kind: "timesFloorAtLeast", value: 0.45 },
      note: await gitNote(bench),
    }),
  ];
};

/** What the worktree adds that the floor has not: git processes of one such Task, and what one takes here. */
const gitNote = async (bench: Bench): Promise<string> => {
  const file = join(bench.root, "spawns");
  const hook = new URL("spawns.ts", import.meta.url).href;
  await using service = await bench.service("counted", { env: { BENCH_SPAWNS: file }, nodeArgs: ["--import", hook] });
  using caller = await createCaller(service.url);
  const repository = bench.project("repository", "git");
  writeFileSync(file, "");
  await caller.settled(await caller.create(repository, `bench shell ${steps} ${bench.id("counted")}`));
  const count = readFileSync(file, "utf8").match(/^git /gm)?.length ?? 0;
  const begun = performance.now();
  for (let index = 0; index < 10; index += 1) execFileSync("git", ["rev-parse", "HEAD"], { cwd: repository });
  return `${count} git processes a Task, rev-parse takes ${((performance.now() - begun) / 10).toFixed(1)} ms`;
};
