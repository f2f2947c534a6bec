import { createCaller } from "./client.ts";
import { type Figure, pause } from "./figure.ts";
import { residentMB } from "./service.ts";
import { median, type Row } from "./table.ts";

/**
 * A Task of 2,000 turns. Its requests grow until a summary shortens them, and grow again: what a step takes where they
 * are longest, beside the floor with requests as long, and whether it takes more before the last summary than before
 * the first; and how much the service held up to then.
 */

const around = 40;

/** The last request before each summary: the next one is much shorter. Without any summary, the last of all. */
const longestOf = (sizes: readonly number[]): number[] => {
  const ends = sizes.flatMap((size, at) => ((sizes[at + 1] ?? size) < 0.9 * size ? [at] : []));
  const far = ends.filter((end, at) => end - (ends[at - 1] ?? 0) > around);
  return far.length === 0 ? [sizes.length - 1] : far;
};

/** Milliseconds from one request to the next, the median of those before `end`. */
const paceBefore = (times: readonly number[], end: number): number => {
  const before = times.slice(end - around, end + 1);
  return median(before.slice(1).map((time, index) => time - (before[index] ?? time)));
};

export const long: Figure = async (bench) => {
  await using service = await bench.service("long");
  using caller = await createCaller(service.url);
  const steps = bench.quick ? 120 : 2_000;
  const id = bench.id("long");
  const directory = bench.project("long", "plain");
  const memory: { at: number; MB: number }[] = [];
  const taskID = await caller.create(directory, `bench long ${steps} ${id}`, {
    isolation: "directory",
    budget: { maxSteps: 2 * steps },
  });
  const settled = caller.settled(taskID).then(() => true);
  while (!(await Promise.race([settled, pause(50)])))
    memory.push({ at: (await bench.mock.call("arrivals", id)).length, MB: residentMB(service.child.pid) });

  const times = await bench.mock.call("arrivals", id);
  const sizes = await bench.mock.call("sizes", id);
  const longest = longestOf(sizes);
  const [first, last] = [longest[0] ?? 0, longest.at(-1) ?? 0];
  const floorID = bench.id("floor");
  await bench.floor.call("run", { tool: "read", steps: first, ids: [floorID], concurrency: 1, folder: directory });
  const floorTimes = await bench.mock.call("arrivals", floorID);
  const kB = (at: number) => `${((sizes[at] ?? 0) / 1000).toFixed(0)} kB`;
  const most = (from: number, to: number) =>
    Math.max(...memory.filter(({ at }) => at >= from && at <= to).map(({ MB }) => MB));
  const row = (figure: string, unit: string, service: number, floor: number, more: Partial<Row>): Row => ({
    figure,
    unit,
    service,
    floor,
    ratio: service / floor,
    ...more,
  });
  const [early, top] = [paceBefore(times, around + 10), paceBefore(times, first)];
  const before = longest.at(-2) ?? 0;
  return [
    row("a step at turn 10", "ms", early, paceBefore(floorTimes, around + 10), { note: `${kB(around)} a request` }),
    row("a step before the first summary", "ms", top, paceBefore(floorTimes, first), {
      note: `turn ${first}, ${kB(first)} a request`,
    }),
    row("a step before the last summary", "ms", paceBefore(times, last), top, {
      goal: { kind: "timesFloor", value: 1.1 },
      note: `turn ${last}, ${kB(last)} a request; floor: before the first`,
    }),
    row("memory up to the last summary", "MB", most(before, last), most(0, first), {
      goal: { kind: "timesFloor", value: 1.2 },
      note: `from turn ${before} to ${last}; floor: up to the first`,
    }),
  ];
};

/** What the model is sent first on a plain project: the handbook, the tools and the request, without their wrapping. */
export const prompt: Figure = async (bench) => {
  const { messages, tools } = (await bench.mock.call("template")) as {
    messages: { content: string }[];
    tools: { function: object }[];
  };
  const parts = [...messages.map(({ content }) => content), ...tools.map((tool) => JSON.stringify(tool.function))];
  const bytes = Buffer.byteLength(parts.join(""));
  return [
    { figure: "prompt of the first request", unit: "kB", service: bytes / 1024, goal: { kind: "atMost", value: 12 } },
  ];
};
