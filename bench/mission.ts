import { drain, send } from "./client.ts";
import { type Bench, type Figure, pause, until } from "./figure.ts";
import { median, type Row } from "./table.ts";
import { clock } from "./worker.ts";

/** What a Mission waits for: the first request of its agent, the next one after a Task's end; and lists of many. */

type Frame = { type: string; at: string; taskID?: string };

const missions = 1_000;

export const mission: Figure = async (bench) => {
  await using service = await bench.service("mission");
  const { url } = service;
  const directory = bench.project("mission", "git");
  const at = (path: string) =>
    `${url}${path}${path.includes("?") ? "&" : "?"}directory=${encodeURIComponent(directory)}`;
  const rounds = bench.quick ? 3 : 20;
  const [firsts, nexts]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds + 1; round += 1) {
    const { first, next } = await walk(bench, at);
    // The first one loads what the others have.
    if (round > 0) firsts.push(first);
    if (round > 0) nexts.push(next);
  }

  const many = bench.quick ? 50 : missions;
  for (let index = 0; index < many; index += 1)
    await send(at("/mission/wake"), "POST", { missionID: `many-${index}`, text: `bench end 0 ${bench.id("many")}` });
  await until(
    async () => (await (await fetch(at("/missions?limit=200"))).json()) as { agentStatus: string }[],
    (found) => found.every(({ agentStatus }) => agentStatus === "inactive"),
    200,
  );
  const timed = async (path: string): Promise<number> => {
    const times: number[] = [];
    for (let index = 0; index < (bench.quick ? 10 : 100); index += 1) {
      const begun = performance.now();
      await drain(at(path));
      times.push(performance.now() - begun);
    }
    return median(times);
  };
  const rows: Row[] = [
    {
      figure: "wake to the Mission's first model request",
      unit: "ms",
      service: median(firsts),
      goal: { kind: "atMost", value: 50 },
    },
    {
      figure: "a Task's end to its Mission's next model request",
      unit: "ms",
      service: median(nexts),
      goal: { kind: "atMost", value: 50 },
      note: "from the time in task.settled",
    },
    {
      figure: `a list of 200 with ${many} Missions`,
      unit: "ms",
      service: await timed("/missions?limit=200"),
      goal: { kind: "atMost", value: 50 },
    },
    {
      figure: `a status with ${many} Missions`,
      unit: "ms",
      service: await timed("/mission/many-7/status"),
      goal: { kind: "atMost", value: 10 },
    },
  ];
  return rows;
};

/** One Mission of one Task. */
const walk = async (bench: Bench, at: (path: string) => string): Promise<{ first: number; next: number }> => {
  const id = bench.id("mission");
  const begun = clock();
  const woken = await send<{ missionID: string }>(at("/mission/wake"), "POST", { text: `bench mission 1 ${id}` });
  const times = await until(
    () => bench.mock.call("arrivals", id),
    (arrivals) => arrivals.length >= 3,
    5,
  );
  const page = (await (await fetch(at(`/mission/${woken.missionID}/events?format=json&limit=1000`))).json()) as {
    events: Frame[];
  };
  const ended = page.events.find(({ type }) => type === "task.settled")?.at ?? "";
  await pause(100);
  // Events have the wall clock's time, requests the machine's.
  const between = clock() - (performance.timeOrigin + performance.now());
  return { first: (times[0] ?? 0) - begun, next: (times[2] ?? 0) - (Date.parse(ended) + between) };
};
