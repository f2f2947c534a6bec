import { test } from "vitest";
import { histories } from "../contract/interleave.ts";

/** The random histories of test/contract/interleave.test.ts, many more of them. */
test("Tasks and a user at one project, 50 random histories", { timeout: 1_800_000 }, async () => {
  const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 1_000_000);
  console.log(`interleave: TEST_SEED=${seed} TEST_RUNS=50`);
  await histories(seed, 50);
});
