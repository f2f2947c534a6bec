import { createCaller, listen, send } from "./client.ts";
import { type Bench, type Figure, pause, until } from "./figure.ts";
import { residentMB } from "./service.ts";
import { median, type Row } from "./table.ts";
import { clock } from "./worker.ts";

/** What readers of live text and of events wait, where there is much else to do or many of them. */

const quantile = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(share * values.length))] ?? Number.NaN;

/** The times that stand in a text of the mock's, read now. */
const delaysIn = (text: string): number[] => text.split(" ").flatMap((at) => (at === "" ? [] : [clock() - Number(at)]));

const others = 10;

/**
 * From a token of the model's to its reader, while ten other Tasks run commands as fast as the machine can. Floor: the
 * same beside ten bare loops, read from the model without a service.
 */
export const token: Figure = async (bench) => {
  await using service = await bench.service("token");
  using caller = await createCaller(service.url);
  const directory = bench.project("token", "plain");
  const count = bench.quick ? 100 : 1_000;
  const steps = bench.quick ? 100 : 500;
  const ids = () => Array.from({ length: others }, () => bench.id("other"));
  const [p50, p95]: [[number, number][], [number, number][]] = [[], []];
  for (let round = 0; round < (bench.quick ? 1 : 3); round += 1) {
    const beside = bench.floor.call("run", {
      tool: "shell",
      steps,
      ids: ids(),
      concurrency: others,
      folder: directory,
    });
    const bare = await bareTokens(bench, count);
    await beside;
    const tasks = await Promise.all(
      ids().map((id) => caller.create(directory, `bench shell ${steps} ${id}`, { isolation: "directory" })),
    );
    const own = await tokensOf(bench, service.url, count);
    await Promise.all(tasks.map((taskID) => caller.settled(taskID)));
    p50.push([quantile(own, 0.5), quantile(bare, 0.5)]);
    p95.push([quantile(own, 0.95), quantile(bare, 0.95)]);
  }
  const row = (figure: string, rounds: readonly [number, number][], goal: number): Row => {
    const [own, floor] = [median(rounds.map(([value]) => value)), median(rounds.map(([, value]) => value))];
    return { figure, unit: "ms", service: own, floor, ratio: own / floor, goal: { kind: "atMost", value: goal } };
  };
  return [row("token to reader, ten Tasks at work", p50, 1), row("the same, 95 of 100", p95, 4)];
};

const tokensOf = async (bench: Bench, url: string, count: number): Promise<number[]> => {
  using caller = await createCaller(url);
  const delays: number[] = [];
  const directory = bench.project("tokens", "plain");
  const id = await caller.create(directory, `bench tokens ${count} ${bench.id("tokens")}`, { isolation: "directory" });
  using _stream = await listen(`${url}/task/${id}/events`, (frame) => {
    if (frame.type === "message.delta") delays.push(...delaysIn(frame.data.text));
  });
  await caller.settled(id);
  return delays;
};

const bareTokens = async (bench: Bench, count: number): Promise<number[]> => {
  const body = { model: "large", stream: true, messages: [{ role: "user", content: `bench tokens ${count} bare` }] };
  const response = await fetch(`${bench.baseURL}/chat/completions`, { method: "POST", body: JSON.stringify(body) });
  const delays: number[] = [];
  let rest = "";
  for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    const blocks = (rest + piece).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      if (block === "data: [DONE]") continue;
      const { choices } = JSON.parse(block.slice(6)) as { choices: { delta: { content?: string } }[] };
      delays.push(...delaysIn(choices[0]?.delta.content ?? ""));
    }
  }
  return delays;
};

/** From an event's time, which is before its commit, to its readers: a thousand of one Task, and one of each of a thousand. */
export const readers: Figure = async (bench) => {
  const count = bench.quick ? 100 : 1_000;
  return [await ofOne(bench, count), await ofMany(bench, count)];
};

/** Who reads is one client here. */
const limits = { streams: 2_000, streamsPerTask: 2_000, streamsPerClient: 2_000 };

const ofOne = async (bench: Bench, count: number): Promise<Row> => {
  await using service = await bench.service("readers", { config: { limits } });
  const directory = bench.project("readers", "plain");
  const before = residentMB(service.child.pid);
  using caller = await createCaller(service.url);
  using streams = new DisposableStack();
  const delays: number[] = [];
  const held = bench.id("held");
  const id = await caller.create(directory, `bench hold 1 ${held}`, { isolation: "directory" });
  for (let reader = 0; reader < count; reader += 1)
    streams.use(
      await listen(`${service.url}/task/${id}/events`, (frame, at) => {
        if ("id" in frame) delays.push(at - Date.parse(frame.at));
      }),
    );
  const changes = bench.quick ? 5 : 30;
  for (let change = 0; change < changes; change += 1) {
    await retitle(service.url, id, directory, `Change ${change}`);
    await until(
      async () => delays.length,
      (length) => length >= (change + 1) * count,
      5,
    );
  }
  const grown = residentMB(service.child.pid) - before;
  return {
    figure: `event to each of ${count} readers, 99 of 100`,
    unit: "ms",
    service: quantile(delays, 0.99),
    note: `${changes} events; ${((1000 * grown) / count).toFixed(0)} kB a reader; median ${median(delays).toFixed(1)} ms`,
  };
};

const retitle = (url: string, id: string, directory: string, title: string) =>
  send(`${url}/task/${id}?directory=${encodeURIComponent(directory)}`, "PATCH", { title });

const ofMany = async (bench: Bench, count: number): Promise<Row> => {
  await using service = await bench.service("many", { config: { limits }, env: { SERVICE_MAX_RUNNING: "10" } });
  const directory = bench.project("many", "plain");
  using caller = await createCaller(service.url);
  using streams = new DisposableStack();
  const delays: number[] = [];
  const ids: string[] = [];
  // Most of them wait for a place: what is measured is the readers.
  for (let task = 0; task < count; task += 1)
    ids.push(await caller.create(directory, `bench hold 1 ${bench.id("many")}`, { isolation: "directory" }));
  await pause(500);
  for (const id of ids)
    streams.use(
      await listen(`${service.url}/task/${id}/events`, (frame, at) => {
        if (frame.type === "task.updated") delays.push(at - Date.parse(frame.at));
      }),
    );
  for (const id of ids) await retitle(service.url, id, directory, "Another");
  await until(
    async () => delays.length,
    (length) => length >= count,
    5,
  );
  return {
    figure: `event to the reader of each of ${count} Tasks, 99 of 100`,
    unit: "ms",
    service: quantile(delays, 0.99),
    note: `median ${median(delays).toFixed(1)} ms`,
  };
};
