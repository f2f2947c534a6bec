import { join } from "node:path";
import { writeFiles } from "../test/harness/project.ts";
import { teamOf } from "../test/harness/double/squads.ts";
import { createCaller, drain } from "./client.ts";
import type { Figure } from "./figure.ts";
import { median, type Row } from "./table.ts";

/** A squad's cost: what a delegated session adds, and what status and board of a long Task cost. */

const pair = teamOf("pair", { orchestrator: ["read, delegate", "delegates: [helper]"], helper: ["read"] });

const timed = async (count: number, work: () => Promise<unknown>): Promise<number> => {
  const times: number[] = [];
  for (let index = 0; index < count; index += 1) {
    const begun = performance.now();
    await work();
    times.push(performance.now() - begun);
  }
  return median(times);
};

export const squad: Figure = async (bench) => {
  writeFiles(join(bench.root, "squad", "squads"), pair);
  await using service = await bench.service("squad");
  using caller = await createCaller(service.url);
  const directory = bench.project("squad", "plain");
  const options = { isolation: "directory", promptProfile: "pair", budget: { maxSteps: 10_000 } } as const;
  /** Between the Orchestrator's requests: one session each, or one call each. */
  const gap = async (tool: "delegate" | "read", steps: number): Promise<number> => {
    const id = bench.id(tool);
    await caller.settled(await caller.create(directory, `bench ${tool} ${steps} ${id}`, options));
    const times = await bench.mock.call("arrivals", id);
    return median(times.slice(1).map((time, index) => time - (times[index] ?? time)));
  };
  const sessions = bench.quick ? 5 : 40;
  await gap("read", 10);
  const step = await gap("read", sessions);
  const session = await gap("delegate", sessions);

  const steps = bench.quick ? 50 : 1_700;
  const taskID = await caller.create(directory, `bench long ${steps} ${bench.id("events")}`, options);
  await caller.settled(taskID);
  const { lastEventID } = await caller.status<{ lastEventID: number }>(taskID);
  const rows: Row[] = [
    {
      figure: "a delegated session of one reply",
      unit: "ms",
      service: session,
      floor: 2 * step,
      note: "its own request and the Orchestrator's next; floor: two steps that read",
    },
  ];
  for (const view of ["status", "board"])
    rows.push({
      figure: `${view} of a Task with ${3 * steps} events`,
      unit: "ms",
      service: await timed(bench.quick ? 10 : 100, () => drain(`${service.url}/task/${taskID}/${view}`)),
      goal: { kind: "atMost", value: 5 },
      note: `position ${lastEventID}`,
    });
  return rows;
};
