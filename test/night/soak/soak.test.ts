import { setTimeout as pause } from "node:timers/promises";
import { expect, test } from "vitest";
import { type Leak, leaks } from "../../crash/leak.ts";
import { startProcess } from "../../crash/process.ts";
import { growthOf, type Point } from "../../harness/growth.ts";
import { temporary } from "../../harness/project.ts";
import { seededRandom } from "../../harness/random.ts";
import { bounds, createMeter } from "./measure.ts";
import { makeWorld } from "./play.ts";

/**
 * A day of a service's life: 24 hours that pass by its clock, in each some Tasks, a Mission and readers. What it uses
 * at rest is measured every three hours, and judged from the sixth on. TEST_TASKS: how many Tasks the day has.
 */

/** States of Tasks that the store's cache holds, and some: what is kept on purpose is there before the day begins. */
const warm = 1_050;
const tasks = Number(process.env["TEST_TASKS"] ?? 3_000);
/** Tasks between two points of the control, in which as much leaks as may in a day, and some. */
const ofControl = 40;

test("a day with thousands of Tasks: nothing grows that is not kept; control: one that leaks is found, whatever it leaks", {
  timeout: 1_500_000,
}, async () => {
  const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
  console.log(`a day: TEST_SEED=${seed} TEST_TASKS=${tasks}`);
  using root = temporary("sortie-soak-");
  await using world = await makeWorld(root.path, seededRandom(seed));
  const leaking = { TEST_LEAK: leaks.join(), TEST_LEAK_KB: "150" };
  await using service = await startProcess({ ...world.env, ...leaking });
  await world.listen(service);
  const meter = createMeter(service, world.dataDir);
  const measure = async (when: string): Promise<Point<Leak>> => {
    const point = { tasks: world.done(), ...(await meter()) };
    const words = Object.entries(point).map(([name, value]) => `${name} ${Math.round(value)}`);
    console.log(`${when}: ${words.join(", ")}`);
    return point;
  };
  const grown = (points: readonly Point<Leak>[]) => {
    const growth = growthOf(points, bounds);
    console.log(`added: ${growth.map(({ name, added }) => `${name} ${added.toFixed(1)}`).join(", ")}`);
    return growth.flatMap(({ name, tooMuch }) => (tooMuch ? [name] : []));
  };

  await world.play(service, warm, { readers: 20, mission: true });
  await measure("before the day");
  const day: Point<Leak>[] = [];
  for (let hour = 1; hour <= 24; hour += 1) {
    await world.play(service, Math.ceil(tasks / 24), { readers: 12, mission: true });
    service.child.kill("SIGALRM");
    if (hour % 3 !== 0) continue;
    const point = await measure(`${hour} h`);
    if (hour >= 6) day.push(point);
  }
  await world.whole(service);
  console.log(JSON.stringify(world.figures()));
  expect(grown(day)).toEqual([]);

  service.child.kill("SIGHUP");
  await pause(500);
  const planted = day.slice(-1);
  for (let round = 0; round < 3; round += 1) {
    await world.play(service, ofControl);
    planted.push(await measure("control"));
  }
  expect(grown(planted)).toEqual([...leaks]);
});
