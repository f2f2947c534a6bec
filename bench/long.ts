import { createCaller } from "./client.ts";
import { type Figure, pause } from "./figure.ts";
import { residentMB } from "./service.ts";
import { median, type Row } from "./table.ts";

/** A Task of 2,000 turns, summarised on its way: what a step takes, and what the service holds, at its ends. */

const around = 40;

export const long: Figure = async (bench) => {
  await using service = await bench.service("long");
  using caller = await createCaller(service.url);
  const steps = bench.quick ? 120 : 2_000;
  const id = bench.id("long");
  const directory = bench.project("long", "plain");
  const taskID = await caller.create(directory, `bench long ${steps} ${id}`, {
    isolation: "directory",
    budget: { maxSteps: 2 * steps },
  });
  const at = async (turn: number): Promise<void> => {
    while ((await bench.mock.call("arrivals", id)).length < turn) await pause(50);
  };
  await at(around + 10);
  const [early, began] = [residentMB(service.child.pid), performance.now()];
  await caller.settled(taskID);
  const seconds = (performance.now() - began) / 1000;
  const times = await bench.mock.call("arrivals", id);
  const gaps = times.slice(1).map((time, index) => time - (times[index] ?? time));
  const first = median(gaps.slice(10, 10 + around));
  const last = median(gaps.slice(steps - around, steps));
  const goal = { kind: "atMost", value: Math.ceil(first * 1.5) } as const;
  const row = (figure: string, unit: string, value: number, more: Partial<Row> = {}): Row => ({
    figure,
    unit,
    service: value,
    ...more,
  });
  return [
    row("a step at turn 10", "ms", first, { note: "median of 40" }),
    row(`a step at turn ${steps}`, "ms", last, { goal, note: `${times.length} requests in ${seconds.toFixed(0)} s` }),
    row(`memory at turn ${steps}`, "MB", residentMB(service.child.pid), { note: `${early.toFixed(0)} MB at turn 50` }),
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
