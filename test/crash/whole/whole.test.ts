import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventData } from "../../../src/protocol/event/event.ts";
import type { MockProvider } from "../../harness/double/mock-provider.ts";
import { night } from "../../harness/night.ts";
import { countSkipped, postgresURL } from "../../harness/postgres.ts";
import { type Receiver, startReceiver } from "../../harness/receiver.ts";
import { metByMission, metByTask } from "./coverage.ts";
import * as gaps from "./gaps.ts";
import { missionScenario } from "./mission.ts";
import { squadProvider, squadScenario } from "./squad.ts";
import { approvedProvider, approvedScenario } from "./approved.ts";
import { cutsOf, type Share } from "./cut.ts";
import { cutAll, playThrough, type Scenario } from "./sweep.ts";

/**
 * Killed after every commit and every effect of a whole run, and followed by each thing that people may do then: what
 * must hold, holds. That the three runs meet every step and every event is found from their logs.
 */

if (postgresURL === undefined) countSkipped(1);

let provider: MockProvider;
let approving: MockProvider;
let receiver: Receiver;
beforeAll(async () => {
  provider = await squadProvider();
  approving = await approvedProvider();
  receiver = await startReceiver();
});
afterAll(async () => {
  await provider.close();
  await approving.close();
  await receiver[Symbol.asyncDispose]();
});

/** Its end without a kill, and then a kill at its points; with TEST_SCENE, at those of that scene alone. */
const sweep = async <Seen>(scenario: Scenario<Seen>, share: Share): Promise<Seen> => {
  const began = performance.now();
  const alike = night || process.env["TEST_SWEEP"] !== undefined;
  const { seen, points } = await playThrough(scenario, alike);
  const chosen = cutsOf(points, share);
  const { seed, states, all } = chosen;
  if ((process.env["TEST_SCENE"] ?? scenario.name) !== scenario.name) return seen;
  const what = `whole sweep, ${scenario.name}: TEST_SEED=${seed}, ${points.length} points${alike ? ` in ${states} states` : ""}`;
  console.log(`${what}, ${chosen.cuts.length} of ${all} kills with what follows`);
  const made = await cutAll(scenario, chosen);
  console.log(`${what}, ${made} of ${all} kills held, ${Math.round((performance.now() - began) / 1000)} s`);
  return seen;
};

type Kinds = Readonly<Record<string, "met" | object | undefined>>;
const namedAsMet = (table: Kinds): string[] => Object.keys(table).filter((kind) => table[kind] === "met");

describe("killed at every point, followed by everything", () => {
  test("a squad's Task and two Missions come to a good end, and meet all there is", {
    timeout: process.env["TEST_SWEEP"] !== undefined ? 24 * 3_600_000 : night ? 2 * 3_600_000 : 180_000,
  }, async () => {
    const task = await sweep(squadScenario(provider.baseURL), { byDay: 3, atNight: 24 });
    const { mission, tasks } = await sweep(missionScenario(receiver), { byDay: 2, atNight: 14 });
    const approved = await sweep(approvedScenario(approving.baseURL), { byDay: 1, atNight: 14 });
    const logs = [task, ...tasks, ...approved.tasks];
    const missions = [mission, approved.mission];
    const steps = new Set(logs.flatMap(metByTask));
    expect([...steps].toSorted()).toEqual(namedAsMet(gaps.taskSteps).toSorted());
    expect([...new Set(missions.flatMap(metByMission))].toSorted()).toEqual(namedAsMet(gaps.missionSteps).toSorted());
    const types = new Set<string>([...logs, ...missions].flat().map(({ type }) => type));
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
