import { createCaller, type TaskOptions } from "./client.ts";
import { type Bench, inTurns, pause } from "./figure.ts";
import { restingMB } from "./memory.ts";
import { type Listener, processorMs, startService } from "./service.ts";
import { pace, pairOf, warm } from "./steps.ts";
import { type Goal, median, type Row, rowOf } from "./table.ts";
import { crowd } from "./throughput.ts";

/**
 * Two checkouts of the service in one run, in turns: what a change costs. The other one stands where the floor does
 * elsewhere. Both have to be built.
 */

/** No figure may be worse by more than a twentieth. */
const noSlower: Goal = { kind: "timesFloor", value: 1.05 };
const noFewer: Goal = { kind: "timesFloorAtLeast", value: 0.95 };

export const beside = async (bench: Bench, checkout: string): Promise<Row[]> => {
  const { quick, baseURL, root } = bench;
  const start = (name: string): Promise<Listener> =>
    startService({ dataDir: `${root}/${name}`, baseURL, ...(name === "other" ? { checkout } : {}) });
  const rows: Row[] = [];
  const compare = async (
    figure: string,
    unit: string,
    rounds: number,
    goal: Goal,
    measure: (url: string, pid: number | undefined) => Promise<number>,
  ): Promise<void> => {
    // Each figure has services of its own: how many Tasks one has behind it costs something, too.
    await using own = await start("own");
    await using other = await start("other");
    await measure(own.url, own.child.pid);
    await measure(other.url, other.child.pid);
    const taken = await inTurns(
      quick ? 1 : rounds,
      () => measure(other.url, other.child.pid),
      () => measure(own.url, own.child.pid),
    );
    rows.push(rowOf(figure, unit, taken, { goal }));
  };

  const steps = warm + (quick ? 10 : 50);
  for (const tool of ["shell", "read"])
    await compare(`a step: ${tool}`, "ms", 7, noSlower, async (url) =>
      pace(await pairOf(bench, url, tool, steps).service(), warm, steps),
    );

  for (const tool of ["shell", "read"])
    await compare(`its processor time: ${tool}`, "ms", 7, noSlower, async (url, pid) => {
      const before = processorMs(pid);
      await pairOf(bench, url, tool, steps).service();
      return (processorMs(pid) - before) / steps;
    });

  const count = quick ? 10 : 60;
  const folderOf = (index: number) => bench.project(`folder-${index}`, "plain");
  for (let index = 0; index < count; index += 1) folderOf(index);
  const repository = bench.project("repository", "git");
  await compare(`${count} Tasks in directories`, "tasks/s", 5, noFewer, (url) =>
    crowd(bench, url, count, folderOf, { isolation: "directory" }),
  );
  await compare(`${count} Tasks in worktrees`, "tasks/s", 5, noFewer, (url) =>
    crowd(bench, url, count, () => repository, { isolation: "worktree" }),
  );
  const alone = (where: string, options: TaskOptions) => async (url: string) => {
    using caller = await createCaller(url);
    const times: number[] = [];
    for (let index = 0; index < (quick ? 2 : 10); index += 1) {
      const begun = performance.now();
      await caller.settled(await caller.create(where, `bench shell 2 ${bench.id("alone")}`, options));
      times.push(performance.now() - begun);
    }
    return median(times);
  };
  await compare("one Task alone, directory", "ms", 5, noSlower, alone(folderOf(0), { isolation: "directory" }));
  await compare("one Task alone, worktree", "ms", 5, noSlower, alone(repository, { isolation: "worktree" }));

  const cold: { floor: number; service: number }[] = [];
  const idle: { floor: number; service: number }[] = [];
  for (let round = 0; round < (quick ? 1 : 5); round += 1) {
    await using other = await start("other");
    const floor = await restingMB(other.child.pid);
    await other.kill("SIGKILL");
    await pause(200);
    await using own = await start("own");
    idle.push({ floor, service: await restingMB(own.child.pid) });
    cold.push({ floor: other.coldMs, service: own.coldMs });
  }
  rows.push(rowOf("a start, to the first answer", "ms", cold, { goal: noSlower }));
  rows.push(rowOf("memory, idle", "MB", idle, { goal: noSlower }));
  return rows;
};
