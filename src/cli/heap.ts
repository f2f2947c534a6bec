import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/**
 * Bounds V8's heap. By default V8 takes memory as long as the machine has some: 130 MB for young objects after a few
 * hundred turns of one conversation, and about as much for garbage among old ones. A bounded heap takes half of that,
 * and no step takes longer (docs/decisions/0034-bounded-heap.md).
 */
export const boundHeap = (): void => {
  // The space for young objects keeps the size it had at the start, about 16 MB.
  setFlagsFromString("--semi-space-growth-factor=1");
  // Old objects are collected when they reach twice the size in use, not four times.
  setFlagsFromString("--heap-growing-percent=100");
};

/** Milliseconds after which the start has nothing left to do. */
const restMs = 1000;

/**
 * Once after the start, returns the memory that only the start needed to the system: 10 MB and more for an idle
 * service. The collection takes about 30 ms.
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
 * Enlarges the space for young objects again: the collection shrinks it to a megabyte, where the bound would keep it.
 * V8 enlarges the space when more objects survive than fit into it: here once, to sixteen times its size, which takes
 * memory only as far as it is used.
 */
const regrow = (): void => {
  setFlagsFromString("--semi-space-growth-factor=16");
  const kept: object[] = [];
  const before = youngBytes();
  // A doubled size may only be the space's second half, so it waits for four times the size.
  for (let round = 0; round < 80 && youngBytes() < 4 * before; round += 1)
    kept.push(Array.from({ length: 10_000 }, (_, at) => ({ at })));
  setFlagsFromString("--semi-space-growth-factor=1");
};

const youngBytes = (): number =>
  getHeapSpaceStatistics().find(({ space_name }) => space_name === "new_space")?.space_size ?? 0;
