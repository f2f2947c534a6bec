import { createDiskSync, type DiskSync } from "../../src/store/sqlite/disk-sync.ts";

/** A real disk that takes its time: from `hold` on, a sync waits for the test's word. */
export type HeldDisk = DiskSync & {
  /** Those that wait, in their order, and those that have waited. */
  waits: PromiseWithResolvers<void>[];
  hold(): void;
  letGo(): void;
};

export const createHeldDisk = (file: string): HeldDisk => {
  const disk = createDiskSync(file);
  const waits: PromiseWithResolvers<void>[] = [];
  let held = false;
  return {
    ...disk,
    waits,
    hold() {
      held = true;
    },
    letGo() {
      held = false;
      for (const wait of waits) wait.resolve();
    },
    async sync() {
      if (held) {
        const wait = Promise.withResolvers<void>();
        waits.push(wait);
        await wait.promise;
      }
      await disk.sync();
    },
  };
};
