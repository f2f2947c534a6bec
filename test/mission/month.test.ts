import { expect, test } from "vitest";
import { playMonth } from "./month.ts";
import { night } from "../harness/night.ts";

/** At night many: test/night/month.test.ts. */
test("a month of a Mission: nothing is stuck, no end is lost or told twice", { timeout: 60_000 }, async () => {
  const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
  console.log(`month of a Mission: TEST_SEED=${seed}`);
  expect((await playMonth(seed)).ended).toBeGreaterThan(5);
});

const atNight = test.runIf(night);
atNight(
  "a Mission that often would rather look again later does so, each time by itself",
  {
    timeout: 60_000,
  },
  async () => {
    const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
    console.log(`days of a Mission that waits: TEST_SEED=${seed}`);
    // One of twelve such stretches has a single wake by time: two of them together have more.
    const [one, other] = [
      await playMonth(seed, { days: 12, waits: true }),
      await playMonth(seed + 1, { days: 12, waits: true }),
    ];
    expect(one.times + other.times).toBeGreaterThan(1);
  },
);

test("control: an end that the Mission did not hear of is found out", { timeout: 60_000 }, async () => {
  await expect(playMonth(7, { days: 2, lose: true })).rejects.toThrow(/seed 7/);
});
