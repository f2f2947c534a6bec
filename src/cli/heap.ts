import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/**
 * Bounds V8's heap. By default V8 takes memory as long as the machine has some: 130 MB for young objects after a few
 * hundred turns of one conversation, and as much garbage behind them. Bounded it takes half of that, and no step takes
 * longer (docs/decisions/0034-bounded-heap.md).
 */
export const boundHeap = (): void => {
  // The space for young objects keeps the size it had at the start, about 16 MB.
  setFlagsFromString("--semi-space-growth-factor=1");
  // Old objects are collected when they reach twice the size in use, not four times.
  setFlagsFromString("--heap-growing-percent=100");
};

/** How long after the start nothing more of it is under way, in milliseconds. */
const restMs = 1000;

/**
 * Gives back to the system what only the start needed, once: 10 MB and more of a service that then has nothing to do.
 * The collection takes about 30 ms.
 */
export const releaseAfterStart = (): void => {
  setTimeout(() => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as (options: object) => void;
    setFlagsFromString("--no-expose-gc");
    collect({ type: "major", flavor: "last-resort" });
    regrow();
  }, restMs).unref();
};

/**
 * The collection leaves a megabyte for young objects, and bounded it would stay at that. It grows when more objects
 * survive than it holds: here once, to sixteen times as much, which takes memory only as far as it is used.
 */
const regrow = (): void => {
  setFlagsFromString("--semi-space-growth-factor=16");
  const kept: object[] = [];
  const before = youngBytes();
  // Twice as much may also be its second half.
  for (let round = 0; round < 80 && youngBytes() < 4 * before; round += 1)
    kept.push(Array.from({ length: 10_000 }, (_, at) => ({ at })));
  setFlagsFromString("--semi-space-growth-factor=1");
};

const youngBytes = (): number =>
  getHeapSpaceStatistics().find(({ space_name }) => space_name === "new_space")?.space_size ?? 0;
