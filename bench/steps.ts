import { createCaller } from "./client.ts";
import { type Bench, type Figure, inTurns } from "./figure.ts";
import { median, rowOf } from "./table.ts";

/**
 * What one step takes, told by when its requests arrive at the model. The first ten are left out: they hold what
 * happens once per Task.
 */

export const warm = 10;

/** Arrival times of one conversation of the service, and of the floor. */
export const pairOf = (bench: Bench, url: string, tool: string, steps: number) => ({
  service: async (): Promise<number[]> => {
    using caller = await createCaller(url);
    const id = bench.id("service");
    const directory = bench.project("steps", "plain");
    await caller.settled(await caller.create(directory, `bench ${tool} ${steps} ${id}`, { isolation: "directory" }));
    return await bench.mock.call("arrivals", id);
  },
  floor: async (): Promise<number[]> => {
    const id = bench.id("floor");
    const folder = bench.project("steps", "plain");
    await bench.floor.call("run", { tool, steps, ids: [id], concurrency: 1, folder });
    return bench.mock.call("arrivals", id);
  },
});

/** Milliseconds per step between two requests of a conversation. */
export const pace = (times: readonly number[], from: number, to: number): number => {
  const [first, last] = [times[from], times[to]];
  if (first === undefined || last === undefined) throw new Error(`Expected ${to} steps, got ${times.length}`);
  return (last - first) / (to - from);
};

export const step: Figure = async (bench) => {
  await using service = await bench.service("step");
  const rounds = bench.quick ? 1 : 9;
  const steps = bench.quick ? warm + 10 : warm + 50;
  const measure = async (tool: string) => {
    const pair = pairOf(bench, service.url, tool, steps);
    const paceOf = async (run: () => Promise<number[]>) => pace(await run(), warm, steps);
    await pair.service();
    return inTurns(
      rounds,
      () => paceOf(pair.floor),
      () => paceOf(pair.service),
    );
  };
  return [
    rowOf("a step: shell true", "ms", await measure("shell"), { goal: { kind: "timesFloor", value: 1 } }),
    rowOf("a step: read", "ms", await measure("read"), { goal: { kind: "overFloor", value: 3 } }),
  ];
};

/** How much slower the last steps of a long Task are than its first; the floor's requests grow in the same way. */
export const flat: Figure = async (bench) => {
  await using service = await bench.service("flat");
  const steps = bench.quick ? 60 : 300;
  const pair = pairOf(bench, service.url, "read", steps);
  const early: number[] = [];
  const late: number[] = [];
  const all: Record<"service" | "floor", number[][]> = { service: [], floor: [] };
  const slower = async (run: () => Promise<number[]>, note: boolean) => {
    const times = await run();
    all[note ? "service" : "floor"].push(times);
    const [first, last] = [pace(times, warm, 50), pace(times, steps - 50, steps)];
    if (note) {
      early.push(first);
      late.push(last);
    }
    return last / first;
  };
  /** Ten lines of the growth. */
  const sections = Array.from({ length: 10 }, (_, part): [from: number, to: number] => [
    warm + Math.round((part * (steps - warm)) / 10),
    warm + Math.round(((part + 1) * (steps - warm)) / 10),
  ]);
  const rounds = await inTurns(
    bench.quick ? 1 : 5,
    () => slower(pair.floor, false),
    () => slower(pair.service, true),
  );
  return [
    rowOf(`steps ${steps - 50}-${steps} against 10-50`, "x", rounds, {
      goal: { kind: "timesFloor", value: 1.1 },
      series: sections.map(([from, to]) => ({
        at: to,
        service: median(all.service.map((times) => pace(times, from, to))),
        floor: median(all.floor.map((times) => pace(times, from, to))),
      })),
      note: `read: ${median(early).toFixed(1)} ms, then ${median(late).toFixed(1)} ms`,
    }),
  ];
};
