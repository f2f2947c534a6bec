import { createCaller } from "./client.ts";
import { type Bench, type Figure, inTurns, until } from "./figure.ts";
import { rowOf } from "./table.ts";
import { clock } from "./worker.ts";

/** When the model had heard of all of them since a moment. */
const allHeard = async (bench: Bench, prefix: string, count: number, since: number): Promise<number> => {
  const { last } = await until(
    () => bench.mock.call("heard", `${prefix}-`, since),
    (heard) => heard.count === count,
  );
  return last;
};

/** From `kill -9` with many Tasks under way to each of them having asked its model again. */
const resume = async (bench: Bench, count: number): Promise<number> => {
  const repository = bench.project("kill", "git");
  const prefix = bench.id("killed");
  await using service = await bench.service(prefix);
  using caller = await createCaller(service.url);
  for (let index = 0; index < count; index += 1) await caller.create(repository, `bench hold 1 ${prefix}-${index}`);
  await allHeard(bench, prefix, count, 0);
  const begun = clock();
  await service.kill("SIGKILL");
  await using again = await bench.service(prefix);
  const last = await allHeard(bench, prefix, count, begun);
  await again.kill("SIGKILL");
  return last - begun;
};

/** A bare process that starts, opens a file and asks as often. */
const bare = async (bench: Bench, count: number): Promise<number> => {
  const prefix = bench.id("bare");
  const begun = clock();
  await using floor = await bench.fresh();
  await floor.call(
    "hold",
    Array.from({ length: count }, (_, index) => `${prefix}-${index}`),
  );
  return (await allHeard(bench, prefix, count, begun)) - begun;
};

export const kill: Figure = async (bench) => {
  const count = bench.quick ? 5 : 50;
  const rounds = await inTurns(
    bench.quick ? 1 : 3,
    () => bare(bench, count),
    () => resume(bench, count),
  );
  return [rowOf(`kill -9, start, ${count} Tasks resumed`, "ms", rounds, { goal: { kind: "atMost", value: 2000 } })];
};
