import { seededRandom } from "./random.ts";

/** Whether everything runs, `npm run test:night`; by day what takes long runs on a sample. */
export const night = process.env["MODE"] === "night";

/**
 * All of them at night, by day so many in their order: which ones, a seed says that is printed. TEST_SEED brings a
 * sample again.
 */
export const sampleByDay = <T>(what: string, all: readonly T[], count: number): T[] => {
  if (night || all.length <= count) return [...all];
  const seed = Number(process.env["TEST_SEED"] ?? Date.now() % 2 ** 31);
  const random = seededRandom(seed);
  const chosen = new Set<number>();
  while (chosen.size < count) chosen.add(random.below(all.length));
  console.log(`${what}: TEST_SEED=${seed}, ${count} of ${all.length} by day`);
  return all.filter((_, index) => chosen.has(index));
};
