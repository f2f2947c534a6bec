import { close, fdatasync, fdatasyncSync, openSync } from "node:fs";
import { promisify } from "node:util";

/**
 * Waits for the disk on another thread. SQLite itself would wait within the commit, which would block the whole
 * service.
 */

export type DiskSync = {
  /** Resolves when everything that was written before the call is on disk. */
  sync(): Promise<void>;
  /** Blocks until then. */
  syncNow(): void;
  close(): void;
};

const datasync = promisify(fdatasync);

/** `file`: the database, which has a write-ahead log by the first call; ":memory:" has no disk to wait for. */
export const createDiskSync = (file: string): DiskSync => {
  if (file === ":memory:") return { sync: async () => {}, syncNow: () => {}, close: () => {} };
  let opened: number | undefined;
  const descriptor = (): number => (opened ??= openSync(`${file}-wal`, "r"));
  return {
    sync: async () => datasync(descriptor()),
    syncNow: () => fdatasyncSync(descriptor()),
    close() {
      if (opened !== undefined) close(opened);
    },
  };
};
