import { join } from "node:path";
import { createCaller } from "./client.ts";
import { type Figure, inTurns, pause, until } from "./figure.ts";
import { type Listener, residentMB, startHello } from "./service.ts";
import { type Row, rowOf } from "./table.ts";

/** Resident memory when nothing is to do, and with Tasks that wait for their model. */
export const memory: Figure = async (bench) => {
  await using hello = await startHello(bench.root);
  await using service = await bench.service("memory", { env: { SERVICE_MAX_RUNNING: "600" } });
  await pause(bench.quick ? 500 : 3000);
  const floor = residentMB(hello.child.pid);
  const idle = residentMB(service.child.pid);
  const rows: Row[] = [
    {
      figure: "memory, idle",
      unit: "MB",
      service: idle,
      floor,
      ratio: idle / floor,
      goal: { kind: "atMost", value: 120 },
    },
  ];
  using caller = await createCaller(service.url);
  const repository = bench.project("memory", "git");
  let before = idle;
  let running = 0;
  for (const count of bench.quick ? [1, 10] : [1, 10, 50, 500]) {
    for (; running < count; running += 1) await caller.create(repository, `bench hold 1 ${bench.id("held")}`);
    await until(
      () => bench.mock.call("held"),
      (held) => held >= count,
      100,
    );
    // The worktrees are made meanwhile; the figure is that of those who wait.
    await settledMemory(service);
    const now = residentMB(service.child.pid);
    const more = count === 1 ? "" : `${((1000 * (now - before)) / (count - rowsOf(rows))).toFixed(0)} kB for each more`;
    rows.push({ figure: `memory, ${count} waiting on the model`, unit: "MB", service: now, note: more });
    before = now;
  }
  await service.kill("SIGKILL");
  return rows;
};

/** How many Tasks waited in the last row. */
const rowsOf = (rows: readonly Row[]): number => Number(/, (\d+) waiting/.exec(rows.at(-1)?.figure ?? "")?.[1] ?? 0);

/** Waits until the process has been at rest for a second. */
const settledMemory = async ({ child }: Listener): Promise<void> => {
  let last = residentMB(child.pid);
  for (let quiet = 0; quiet < 4; ) {
    await pause(250);
    const now = residentMB(child.pid);
    quiet = Math.abs(now - last) < 0.5 ? quiet + 1 : 0;
    last = now;
  }
};

/** From the start of the process to the first 200, with a data folder that has been used before. */
export const cold: Figure = async (bench) => {
  const start = async () => {
    await using service = await bench.service("cold");
    const { coldMs } = service;
    await service.kill("SIGTERM");
    return coldMs;
  };
  await start();
  const rounds = await inTurns(
    bench.quick ? 1 : 9,
    async () => {
      await using hello = await startHello(join(bench.root));
      return hello.coldMs;
    },
    start,
  );
  return [
    rowOf("cold start to the first 200", "ms", rounds, {
      goal: { kind: "atMost", value: 400 },
      note: "floor: node -e, hello",
    }),
  ];
};
