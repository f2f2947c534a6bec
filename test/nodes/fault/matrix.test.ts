import { describe, expect, test } from "vitest";
import { setTimeout as pause } from "node:timers/promises";
import { canServe } from "../../harness/double/git-host.ts";
import { night, sampleByDay } from "../../harness/night.ts";
import { countSkipped, postgresURL } from "../../harness/postgres.ts";
import { until } from "../../harness/project.ts";
import { seededRandom } from "../../harness/random.ts";
import { openCluster } from "./cluster.ts";
import { type Fault, faults } from "./fault.ts";
import { endFaults, judge, keepLog } from "./judge.ts";
import { beginWork } from "./work.ts";

/**
 * Faults of nodes, of the database and of what is between them, while Tasks and Missions are at work: each ends once
 * and lands once, nothing is lost, doubled or left. By day one strike of one fault; at night each fault at least twenty
 * times. TEST_SEED brings the choices again (not the moments), TEST_FAULT one fault alone, TEST_STRIKES another number
 * of strikes.
 */

const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);

type Size = { strikes: number; tasks: number; missions: number; paceMs: number; archives: number; settleMs: number };
const large: Size = {
  strikes: Number(process.env["TEST_STRIKES"] ?? 20),
  tasks: 40,
  missions: 4,
  paceMs: 1500,
  archives: 8,
  settleMs: 240_000,
};
const small: Size = { strikes: 1, tasks: 4, missions: 1, paceMs: 400, archives: 1, settleMs: 90_000 };

/** Resolves to what does not hold; empty: all of it does. */
const run = async (name: Fault, size: Size, fenced = true): Promise<string[]> => {
  const since = performance.now();
  const seconds = () => `${((performance.now() - since) / 1000).toFixed(1)} s`;
  console.log(`${name}: TEST_SEED=${seed}${fenced ? "" : ", without the fence"}`);
  const random = seededRandom(seed);
  await using cluster = await openCluster({ smallDisks: name === "a node's disk full", fenced });
  if (name === "a node's disk full" && cluster.nodes.some(({ disk }) => disk === undefined)) return [];
  await using work = await beginWork(cluster, seededRandom(seed + 1), 4);
  let struck = 0;
  const feeding = work.feed(size, () => struck >= size.strikes);
  const strike = faults[name];
  const striking = (async () => {
    for (; struck < size.strikes; struck += 1) {
      await until(
        () => Promise.resolve(work.active()),
        (active) => active >= Math.min(3, size.tasks - 1) || work.tasks.length >= size.tasks,
        60_000,
      );
      await pause(100 + random.below(1200));
      const node = random.pick(cluster.nodes);
      const what = await strike({ cluster, node, random });
      console.log(`${name} ${struck + 1}: ${node.name}: ${what}; ${work.tasks.length} Tasks, ${work.active()} active`);
    }
  })();
  await Promise.all([feeding, striking]);
  console.log(`${name}: struck ${struck} times after ${seconds()}`);
  const late = await work.settle(size.settleMs).then(
    () => [],
    (error: unknown) => [`not everything ended: ${String(error)}`],
  );
  console.log(`${name}: settled after ${seconds()}`);
  const found = await judge(cluster, work, random, size.archives);
  console.log(`${name}: ${work.tasks.length} Tasks, ${work.missions.length} Missions, judged after ${seconds()}`);
  const wrong = [...late, ...found, ...(await endFaults(cluster))];
  if (wrong.length > 0) console.log(`${name}: ${wrong.join("\n")}\nthe log is kept in ${await keepLog(cluster)}`);
  return wrong;
};

const all = Object.keys(faults) as Fault[];
const wanted = process.env["TEST_FAULT"];
const chosen = all.filter((name) => wanted === undefined || name === wanted);
/** Those whose strikes take a second or two. */
const quick = chosen.filter((name) => /^(?:SIGTERM|the database|connections|a node's clock)/.test(name));

describe.skipIf(postgresURL === undefined || !canServe)("faults of nodes", () => {
  test.skipIf(night)("one strike of one of them", { timeout: 240_000 }, async () => {
    for (const name of sampleByDay("faults of nodes", quick, 1)) expect(await run(name, small)).toEqual([]);
  });

  test.runIf(night).each(chosen)("%s", { timeout: 900_000 }, async (name) => {
    expect(await run(name, large)).toEqual([]);
  });

  test.runIf(night)("control: with the fence switched off it fails", { timeout: 900_000 }, async () => {
    const size = { ...large, strikes: 6, tasks: 20, missions: 1 };
    expect(await run("SIGSTOP, and SIGCONT after the lease", size, false)).not.toEqual([]);
  });
});
if (postgresURL === undefined) countSkipped(1);
