import type { Disk } from "../../src/store/disk/disk.ts";

/** A disk that never runs short, for tests of something else. */
export const endlessDisk: Disk = {
  hasSpace: () => true,
  admit: () => Promise.resolve(),
  shortage: () => undefined,
  pauses: () => 0,
  plenty: () => Promise.resolve(),
  onPause: () => ({ [Symbol.dispose]() {} }),
  free: () => Number.MAX_SAFE_INTEGER,
  look: () => Promise.resolve(),
  isKept: () => false,
  report() {},
  giveUp: () => Promise.resolve(false),
  [Symbol.asyncDispose]: () => Promise.resolve(),
};
