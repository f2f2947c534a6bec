import { expect, test } from "vitest";
import { playMonth } from "../mission/month.ts";

test("sixty months of a Mission", { timeout: 1_800_000 }, async () => {
  const first = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
  const runs = Number(process.env["TEST_RUNS"] ?? 60);
  let ended = 0;
  let deaths = 0;
  for (let seed = first; seed < first + runs; seed += 1) {
    if (seed % 20 === first % 20)
      console.log(`months of a Mission: from TEST_SEED=${seed}, ${ended} Tasks ended, ${deaths} deaths`);
    const month = await playMonth(seed).catch((error: unknown) => {
      throw new Error(`TEST_SEED=${seed} TEST_RUNS=1: ${String(error)}`, { cause: error });
    });
    ended += month.ended;
    deaths += month.deaths;
  }
  expect(ended).toBeGreaterThan(runs);
});
