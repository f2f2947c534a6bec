import { startReceiver } from "../test/harness/receiver.ts";
import { createCaller, send } from "./client.ts";
import { type Figure, inTurns, until } from "./figure.ts";
import { pace, pairOf, warm } from "./steps.ts";
import { median, rowOf } from "./table.ts";

/** From the end of a Task to the receiver that is told of it, and what a step costs beside a webhook. */
export const webhook: Figure = async (bench) => {
  const delays: number[] = [];
  await using receiver = await startReceiver(({ message }, response) => {
    if (message.type === "task.completed")
      delays.push(performance.timeOrigin + performance.now() - Date.parse(message.timestamp));
    response.writeHead(204).end();
  });
  await using told = await bench.service("webhook", { config: { webhooks: { allow: ["127.0.0.1"] } } });
  await using alone = await bench.service("no-webhook");
  await send(`${told.url}/webhook`, "POST", { url: receiver.url });

  using caller = await createCaller(told.url);
  const directory = bench.project("webhook", "plain");
  const ends = bench.quick ? 5 : 60;
  for (let round = 0; round < ends; round += 1) {
    const request = `bench none 0 ${bench.id("webhook")}`;
    await caller.settled(await caller.create(directory, request, { isolation: "directory" }));
    await until(
      () => Promise.resolve(delays.length),
      (count) => count > round,
      5,
    );
  }

  const ended = delays.slice(0, ends);
  const steps = bench.quick ? warm + 10 : warm + 50;
  const [with_, without] = [told.url, alone.url].map((url) => pairOf(bench, url, "read", steps));
  const paceOf = async (run: (() => Promise<number[]>) | undefined) => pace((await run?.()) ?? [], warm, steps);
  await paceOf(with_?.service);
  await paceOf(without?.service);
  const rounds = await inTurns(
    bench.quick ? 1 : 9,
    () => paceOf(without?.service),
    () => paceOf(with_?.service),
  );
  return [
    {
      figure: "webhook: a Task's end to the receiver",
      unit: "ms",
      service: median(ended),
      goal: { kind: "atMost", value: 50 },
      note: `includes the commit; the slowest of ${ends}: ${Math.max(...ended).toFixed(0)} ms`,
    },
    rowOf("a step: read, beside a webhook", "ms", rounds, {
      goal: { kind: "timesFloor", value: 1.1 },
      note: "floor: the service without one",
    }),
  ];
};
