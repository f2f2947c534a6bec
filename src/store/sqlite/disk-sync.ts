import { close, fdatasync, fdatasyncSync, openSync } from "node:fs";
import { promisify } from "node:util";

/**
 * Waits for the disk off the thread that answers. SQLite itself would wait within the commit, and nothing else of the
 * service would go on meanwhile.
 */

export type DiskSync = {
  /** Resolves when everything that was written before the call is on disk. */
  sync(): Promise<void>;
  /** Returns then. */
  syncNow(): void;
  close(): void;
};

const datasync = promisify(fdatasync);

/** `file`: the database, with a write-ahead log once it is first called; ":memory:" has no disk to wait for. */
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
