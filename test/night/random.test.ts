import { test } from "vitest";
import { soak } from "../crash/soak.ts";

/** The random kills of test/crash, longer: several services, one after another. */
test("killed at random moments, again and again", { timeout: 600_000 }, async () => {
  const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
  const rounds = Number(process.env["TEST_ROUNDS"] ?? 6);
  const kills = Number(process.env["TEST_KILLS"] ?? 16);
  for (let round = 0; round < rounds; round += 1) {
    console.log(`random kills: TEST_SEED=${seed + round} TEST_ROUNDS=1 TEST_KILLS=${kills}`);
    await soak(seed + round, kills);
  }
});
