import { setFlagsFromString } from "node:v8";

/**
 * Left alone, V8 takes memory as long as the machine has some: 130 MB for young objects after a few hundred turns of one
 * conversation, and as much garbage behind them. Bounded it holds half of that, and no step takes longer (decision 34).
 */
export const boundHeap = (): void => {
  // The space for young objects stays as large as the start made it, about 16 MB.
  setFlagsFromString("--semi-space-growth-factor=1");
  // Old objects are collected when there are twice as many as were in use, not four times.
  setFlagsFromString("--heap-growing-percent=100");
};
