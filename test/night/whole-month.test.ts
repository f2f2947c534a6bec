import { expect, test } from "vitest";
import { type Kind, kinds, type Observed, violationsIn } from "../mission/whole-month/observe.ts";
import { type Month, playWholeMonth, storiesOf } from "../mission/whole-month/month.ts";
import { controls } from "../mission/whole-month/spoil.ts";
import { seededRandom } from "../harness/random.ts";

/** A month of eight Missions, as their user lives it; and that each kind of what is checked can be found out. */

const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);

test("a month of Missions: approvals, verification, branches, questions, deaths", { timeout: 900_000 }, async () => {
  const begun = Date.now();
  console.log(`a month of the whole service: TEST_SEED=${seed}`);
  const month: Month = await playWholeMonth(seed, storiesOf(seededRandom(seed)), {
    days: Number(process.env["TEST_DAYS"] ?? 30),
    log: (text) => console.log(text),
  });
  const { kills, had, last } = month;
  console.log(
    [
      `${kills} kills, ${Math.round((Date.now() - begun) / 1000)} s`,
      ...Object.entries(had).map(([what, count]) => `${what}: ${count}`),
    ].join("\n"),
  );
  expect(kills).toBeGreaterThan(5);
  const never = Object.entries(had).flatMap(([what, count]) => (count === 0 ? [what] : []));
  expect(never, "what a month is to have, and this one had not").toEqual([]);
  // Nobody is stuck in the end.
  expect(had["Missions done"]).toBe(last.missions.length);
  // Whatever this very month showed, spoilt in one place, is found out as what it is.
  for (const kind of kinds) expect([kind, found(kind, last)]).toEqual([kind, true]);
});

const found = (kind: Kind, seen: Observed): boolean =>
  controls[kind].every((spoil) => violationsIn(spoil(structuredClone(seen))).some((one) => one.kind === kind));
