import { createCaller } from "./client.ts";
import { type Figure, inTurns, pause, until } from "./figure.ts";
import { residentMB, startHello } from "./service.ts";
import { type Row, rowOf } from "./table.ts";

/** MB, by how many Tasks wait. */
const goals = new Map([
  [50, 130],
  [500, 250],
]);

/** Resident memory when nothing is to do, and with Tasks that wait for their model. */
export const memory: Figure = async (bench) => {
  const rows: Row[] = [];
  const put = (figure: string, service: number, floor: number, more: Partial<Row> = {}) =>
    rows.push({ figure, unit: "MB", service, floor, ratio: service / floor, ...more });
  await using hello = await startHello(bench.root);
  const start = () => bench.service("memory", { env: { SERVICE_MAX_RUNNING: "600" } });
  // As `cold`: what is measured is a service that was started before, and finds its scripts compiled.
  {
    await using first = await start();
    await restingMB(first.child.pid);
    await first.kill("SIGTERM");
  }
  await using service = await start();
  await using floor = await bench.fresh();
  const idle = await restingMB(service.child.pid);
  const [bare, fresh] = [residentMB(hello.child.pid), residentMB(floor.pid)];
  put("memory, idle", idle, bare, {
    goal: { kind: "atMost", value: 90 },
    note: "floor: node:http, hello",
  });

  using caller = await createCaller(service.url);
  const repository = bench.project("memory", "git");
  let [before, running, held] = [idle, 0, 0];
  const holding = async (more: number) => {
    held += more;
    await until(
      () => bench.mock.call("held"),
      (waiting) => waiting >= held,
      100,
    );
  };
  for (const count of bench.quick ? [1, 10] : [1, 10, 50, 500]) {
    const more = count - running;
    const ids = Array.from({ length: more }, () => bench.id("held"));
    for (const id of ids) await caller.create(repository, `bench hold 1 ${id}`);
    await holding(more);
    await floor.call("hold", ids);
    await holding(more);
    const now = await restingMB(service.child.pid);
    // The floor's process strips its own types, which takes memory that a bare one does not: only its growth counts.
    const open = bare + residentMB(floor.pid) - fresh;
    const note = running === 0 ? {} : { note: `${((1000 * (now - before)) / more).toFixed(0)} kB for each more` };
    const most = goals.get(count);
    put(`memory, ${count} waiting on the model`, now, open, {
      ...note,
      ...(most === undefined ? {} : { goal: { kind: "atMost", value: most } }),
    });
    [before, running] = [now, count];
  }
  await service.kill("SIGKILL");
  return rows;
};

/** What a process keeps once it has come to rest, which is after the worktrees were made. */
export const restingMB = async (pid: number | undefined): Promise<number> => {
  let last = residentMB(pid);
  for (let quiet = 0; quiet < 4; ) {
    await pause(250);
    const now = residentMB(pid);
    quiet = Math.abs(now - last) < 0.5 ? quiet + 1 : 0;
    last = now;
  }
  return last;
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
      await using hello = await startHello(bench.root);
      return hello.coldMs;
    },
    start,
  );
  return [
    rowOf("cold start to the first 200", "ms", rounds, {
      goal: { kind: "atMost", value: 300 },
      note: "floor: node -e, hello",
    }),
  ];
};
