import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";

/**
 * The bounds that `sortie serve` sets V8, in a process of its own: V8 obeys them without saying so, or ignores them.
 */

const heap = new URL("../../src/cli/heap.ts", import.meta.url).href;

/** Megabytes of the space for young objects, after work that lets V8 make it as large as it likes. */
const youngAfterWork = async (bounded: boolean): Promise<number> => {
  const script = `
    import { getHeapSpaceStatistics } from "node:v8";
    ${bounded ? `(await import("${heap}")).boundHeap();` : ""}
    for (let round = 0; round < 30; round += 1) globalThis.kept = Array.from({ length: 200_000 }, (_, at) => ({ at }));
    console.log(getHeapSpaceStatistics().find((space) => space.space_name === "new_space").space_size / 1e6);
  `;
  const args = ["--no-warnings", "--input-type=module", "-e", script];
  return Number((await promisify(execFile)(process.execPath, args)).stdout);
};

test("the space for young objects stays as it is; without the bound it grows", async () => {
  expect(await youngAfterWork(true)).toBeLessThan(20);
  expect(await youngAfterWork(false)).toBeGreaterThan(30);
});

/** Megabytes of memory, and of the space for young objects, some time after much was used and is used no more. */
const atRest = async (released: boolean): Promise<{ resident: number; young: number }> => {
  const script = `
    import { getHeapSpaceStatistics } from "node:v8";
    const { boundHeap, releaseAfterStart } = await import("${heap}");
    globalThis.kept = Array.from({ length: 300_000 }, (_, at) => ({ at }));
    globalThis.kept = undefined;
    boundHeap();
    ${released ? "releaseAfterStart();" : ""}
    setTimeout(() => console.log(JSON.stringify({
      resident: process.memoryUsage.rss() / 1e6,
      young: getHeapSpaceStatistics().find((space) => space.space_name === "new_space").space_size / 1e6,
    })), 1500);
  `;
  const args = ["--no-warnings", "--input-type=module", "-e", script];
  return JSON.parse((await promisify(execFile)(process.execPath, args)).stdout);
};

test("what only the start needed goes back to the system; control: by itself it stays", async () => {
  const [released, kept] = await Promise.all([atRest(true), atRest(false)]);
  expect(released.resident).toBeLessThan(kept.resident - 8);
  // Young objects have room again, in two halves of 16 MB.
  expect(released.young).toBeGreaterThan(16);
  expect(released.young).toBeLessThan(40);
});
