import { statfs } from "node:fs/promises";
import { ServiceError } from "../error.ts";
import type { Limits } from "../protocol/limit.ts";

/** Refuses new Tasks while the data folder's disk is nearly full. Checks the disk at most once a second. */
export const diskGuard = (dataDir: string, limits: Limits) => {
  let asked = 0;
  let short: string | undefined;
  return async (): Promise<void> => {
    if (performance.now() - asked > 1000) {
      const { bavail, bsize, blocks } = await statfs(dataDir);
      const free = bavail * bsize;
      const wanted = Math.max(limits.diskFreeBytes, (blocks * bsize * limits.diskFreePercent) / 100);
      short =
        free < wanted
          ? `Expected at least ${Math.round(wanted / 2 ** 20)} MiB free for the data folder, found ${Math.round(free / 2 ** 20)} MiB.`
          : undefined;
      asked = performance.now();
    }
    if (short !== undefined) throw new ServiceError("disk_low", short);
  };
};
