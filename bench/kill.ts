import { createCaller } from "./client.ts";
import { type Figure, until } from "./figure.ts";
import { median, type Row } from "./table.ts";
import { clock } from "./worker.ts";

/** From `kill -9` with many Tasks under way to each of them having asked its model again. */
export const kill: Figure = async (bench) => {
  const count = bench.quick ? 5 : 50;
  const repository = bench.project("kill", "git");
  const times: number[] = [];
  for (let round = 0; round < (bench.quick ? 1 : 3); round += 1) {
    const name = `kill-${round}`;
    const prefix = bench.id("killed");
    await using service = await bench.service(name);
    using caller = await createCaller(service.url);
    for (let index = 0; index < count; index += 1) await caller.create(repository, `bench hold 1 ${prefix}-${index}`);
    await until(
      () => bench.mock.call("heard", `${prefix}-`, 0),
      (heard) => heard.count === count,
    );
    const begun = clock();
    await service.kill("SIGKILL");
    await using again = await bench.service(name);
    const { last } = await until(
      () => bench.mock.call("heard", `${prefix}-`, begun),
      (heard) => heard.count === count,
    );
    times.push(last - begun);
    await again.kill("SIGKILL");
  }
  return [
    {
      figure: `kill -9, start, ${count} Tasks resumed`,
      unit: "ms",
      service: median(times),
      goal: { kind: "atMost", value: 2000 },
    },
  ] satisfies Row[];
};
