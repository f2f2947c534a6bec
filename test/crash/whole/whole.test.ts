import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventData } from "../../../src/protocol/event/event.ts";
import type { MockProvider } from "../../harness/double/mock-provider.ts";
import { countSkipped, postgresURL } from "../../harness/postgres.ts";
import { type Receiver, startReceiver } from "../../harness/receiver.ts";
import { metByMission, metByTask } from "./coverage.ts";
import * as gaps from "./gaps.ts";
import { missionScenario } from "./mission.ts";
import { squadProvider, squadScenario } from "./squad.ts";
import { cutAll, cutsOf, playThrough, type Scenario } from "./sweep.ts";

/**
 * Killed after every commit and every effect of a whole run, and followed by each thing that people may do then: what
 * must hold, holds. That the two runs meet every step and every event is found from their logs.
 */

if (postgresURL === undefined) countSkipped(1);

let provider: MockProvider;
let receiver: Receiver;
beforeAll(async () => {
  provider = await squadProvider();
  receiver = await startReceiver();
});
afterAll(async () => {
  await provider.close();
  await receiver[Symbol.asyncDispose]();
});

/** Its end without a kill, and then one for each point, which by day are `byDay` drawn from all. */
const sweep = async <Seen>(scenario: Scenario<Seen>, byDay: number): Promise<Seen> => {
  const { seen, points } = await playThrough(scenario);
  const chosen = cutsOf(points, byDay);
  console.log(
    `whole sweep, ${scenario.name}: TEST_SEED=${chosen.seed}, ${points.length} points, killed at ${chosen.cuts.length} of ${chosen.all} with what follows`,
  );
  await cutAll(scenario, chosen);
  return seen;
};

type Kinds = Readonly<Record<string, "met" | object | undefined>>;
const namedAsMet = (table: Kinds): string[] => Object.keys(table).filter((kind) => table[kind] === "met");

describe("killed at every point, followed by everything", () => {
  test("a squad's Task and a Mission come to a good end, and meet all there is", {
    timeout: 24 * 3_600_000,
  }, async () => {
    const task = await sweep(squadScenario(provider.baseURL), 3);
    const { mission, tasks } = await sweep(missionScenario(receiver), 2);
    const logs = [task, ...tasks];
    const steps = new Set(logs.flatMap(metByTask));
    expect([...steps].toSorted()).toEqual(namedAsMet(gaps.taskSteps).toSorted());
    expect([...new Set(metByMission(mission))].toSorted()).toEqual(namedAsMet(gaps.missionSteps).toSorted());
    const types = new Set<string>([...logs.flat(), ...mission].map(({ type }) => type));
    const unmet = Object.keys(eventData).filter((type) => !types.has(type));
    expect(unmet.toSorted()).toEqual(Object.keys(gaps.events).toSorted());
  });

  test("what the runs do not meet stands in a test that there is", () => {
    const root = fileURLToPath(new URL("../../../", import.meta.url));
    const all = [gaps.taskSteps, gaps.missionSteps, gaps.events].flatMap((table) => Object.values(table));
    const named = new Set(all.flatMap((gap) => (gap === "met" ? [] : [gap.test])));
    expect([...named].filter((path) => !existsSync(join(root, path)))).toEqual([]);
    const alive = all.filter((gap) => gap !== "met" && !gap.killed).length;
    console.log(`whole sweep: ${alive} steps and events are tested without a kill around them`);
  });

  test("control: work that was lost is found out", { timeout: 60_000 }, async () => {
    const scenario = squadScenario(provider.baseURL, (project) => rmSync(join(project, "more.txt")));
    await expect(playThrough(scenario)).rejects.toThrow("more.txt");
  });
});
