import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { createMissionTools } from "../../../src/mission/tool/registry.ts";
import type { MissionRun } from "../../../src/mission/run.ts";
import { defaultLimits } from "../../../src/protocol/limit.ts";
import { tools } from "../../../src/tool/registry.ts";
import { night, sampleByDay } from "../../harness/night.ts";
import { agentLoads } from "./agent-loads.ts";
import { fileLoads } from "./file-loads.ts";
import { limitLoads, notDriven } from "./limit-loads.ts";
import type { Load } from "./load.ts";
import { openStage, type Stillness } from "./stage.ts";
import { toolLoads } from "./tool-loads.ts";

/**
 * No one call holds up the service: every tool of an agent and every row of `limits` with as much as it takes, and the
 * longest time that the event loop of the process that serves stood still meanwhile. All run at night, a sample of the
 * short ones by day; `TEST_LOAD=<expression>` runs those whose names match.
 *
 * Neighbours take the processor away, and then everything stands still. So what counts is the time in which the thread
 * worked between two turns of the loop, and beside it that time with what it waited for disks and for children to
 * begin, both without that in which it was ready and had no processor (`serving.ts`); and of up to three runs the
 * shortest, as what blocks does so each time, while what is loaded is loaded once. What `monitorEventLoopDelay` says is
 * printed beside it.
 */

/** Milliseconds of work. */
const longest = 50;
/**
 * With waits, which a busy machine stretches to half a second: for the disk of a commit, for a child that gets no
 * processor.
 */
const longestWait = 1000;
const loadsByDay = 2;

const chosen = process.env["TEST_LOAD"];
const loads: readonly Load[] = [...toolLoads, ...limitLoads, ...fileLoads, ...agentLoads];

const measured = (): readonly Load[] => {
  if (chosen !== undefined) return loads.filter(({ name }) => new RegExp(chosen).test(name));
  if (night) return loads;
  return sampleByDay(
    "the event loop",
    loads.filter(({ short }) => short === true),
    loadsByDay,
  );
};

const isShort = ({ work, own }: Stillness): boolean => work < longest && own < longestWait;

test("each tool and each row of limits is driven to its bound, or the reason is said why it is not", () => {
  const driven = new Set(loads.flatMap(({ drives }) => drives));
  const counted = Object.values(notDriven).flat();
  // Of a Mission's tools only the names are looked at.
  const ofMissions = createMissionTools({} as MissionRun).map(({ name }) => name);
  const all = [...Object.keys(tools), ...ofMissions, ...Object.keys(defaultLimits)];
  expect([...driven, ...counted].filter((name) => !all.includes(name))).toEqual([]);
  expect(all.filter((name) => !driven.has(name) && !counted.includes(name))).toEqual([]);
  expect(counted.filter((name) => driven.has(name))).toEqual([]);
});

test("nothing holds up the service; control: what does is seen", { timeout: 3_600_000 }, async () => {
  const found: { name: string; least: Stillness }[] = [];
  const all = measured();
  const configs = new Set([undefined, ...all.map(({ config }) => config)]);
  for (const config of configs) {
    await using stage = await openStage(config);
    if (config === undefined) {
      found.push({ name: "at rest", least: await stage.worst(() => pause(200)) });
      const control = await stage.worst(() => stage.tell({ what: "block", ms: 80 }));
      expect(control.work).toBeGreaterThan(70);
      expect(control.own).toBeGreaterThan(70);
      expect(control.delay).toBeGreaterThan(70);
    }
    // What is loaded with the first Task of a provider's, once in the life of a service.
    await stage.worst(() => stage.first());
    for (const { name, run } of all.filter((load) => load.config === config)) {
      const runs: Stillness[] = [];
      while (runs.length < 3 && !runs.some(isShort)) {
        runs.push(await stage.worst(() => run(stage)));
        stage.expectPlayed();
      }
      const [least] = runs.toSorted((one, other) => one.work - other.work);
      if (least !== undefined) found.push({ name, least: runs.find(isShort) ?? least });
    }
  }
  const lines = found
    .toSorted((one, other) => other.least.work - one.least.work)
    .map(({ name, least }) => ({
      least,
      text: `${least.work.toFixed(1).padStart(8)} ms, with waits ${least.own.toFixed(1)} (delay ${least.delay.toFixed(1)}) ${name}`,
    }));
  console.log(["the longest standstills:", ...lines.map(({ text }) => text)].join("\n"));
  expect(lines.filter(({ least }) => !isShort(least)).map(({ text }) => text)).toEqual([]);
});
