import { createCaller, listen, send } from "./client.ts";
import { type Bench, type Figure, pause, until } from "./figure.ts";
import { median, type Round, type Row, rowOf } from "./table.ts";
import { clock } from "./worker.ts";

/** How long a caller waits for the 202, and for the agent to begin. */
export const post: Figure = async (bench) => {
  await using service = await bench.service("post");
  const port = await bench.floor.call("serve");
  const directory = bench.project("post", "git");
  const count = bench.quick ? 5 : 40;
  const once = async (url: string): Promise<{ answered: number; asked: number }> => {
    const id = bench.id("post");
    const begun = clock();
    const body = { request: `bench none 0 ${id}`, productPillar: "code", title: "Bench" };
    await send(`${url}/task?directory=${encodeURIComponent(directory)}`, "POST", body);
    const answered = clock() - begun;
    const { last } = await until(
      () => bench.mock.call("heard", id, begun),
      (heard) => heard.count > 0,
      5,
    );
    // The Task's end and its tidying must not fall into the next round.
    await pause(60);
    return { answered, asked: last - begun };
  };
  const [answered, asked]: [Round[], Round[]] = [[], []];
  for (let round = 0; round < 3; round += 1) await once(service.url);
  for (let round = 0; round < count; round += 1) {
    const floor = await once(`http://127.0.0.1:${port}`);
    const own = await once(service.url);
    answered.push({ service: own.answered, floor: floor.answered });
    asked.push({ service: own.asked, floor: floor.asked });
  }
  return [
    rowOf("POST to 202", "ms", answered, { note: "floor: JSON, one durable commit" }),
    rowOf("POST to the first model request", "ms", asked, {
      goal: { kind: "atMost", value: 10 },
      note: "a worktree Task",
    }),
  ];
};

/** From the time that stands in an event, which is before its commit, to the frame at a reader. */
export const events: Figure = async (bench) => {
  await using service = await bench.service("events");
  const rounds: Round[] = [];
  for (let round = 0; round < (bench.quick ? 1 : 5); round += 1)
    rounds.push({ floor: await floorDelay(bench), service: await delay(bench, service.url) });
  return [rowOf("SSE: event to reader", "ms", rounds, { note: "includes the commit" })] satisfies Row[];
};

const delay = async (bench: Bench, url: string): Promise<number> => {
  const delays: number[] = [];
  using caller = await createCaller(url, (frame, at) => delays.push(at - Date.parse(frame.at)));
  const directory = bench.project("events", "plain");
  const request = `bench read 30 ${bench.id("events")}`;
  await caller.settled(await caller.create(directory, request, { isolation: "directory" }));
  return median(delays);
};

const floorDelay = async (bench: Bench): Promise<number> => {
  const port = await bench.floor.call("serve");
  const delays: number[] = [];
  using _stream = await listen(`http://127.0.0.1:${port}/events`, (frame, at) =>
    delays.push(at - Date.parse(frame.at)),
  );
  await bench.floor.call("publish", 60);
  await until(
    async () => delays.length,
    (length) => length >= 60,
    5,
  );
  return median(delays);
};
