import { setFlagsFromString } from "node:v8";

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
