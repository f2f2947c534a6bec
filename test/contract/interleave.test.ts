import { test } from "vitest";
import { histories } from "./interleave.ts";

/** Some random histories in the ordinary run, 50 in test/night; the seed is printed and can be given again. */

const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 1_000_000);
const runs = Number(process.env["TEST_RUNS"] ?? 6);

test("several Tasks and a user at one project: no byte of the user's lost, history linear, the repository sound", async () => {
  console.log(`interleave: TEST_SEED=${seed} TEST_RUNS=${runs}`);
  await histories(seed, runs);
}, 1_200_000);
