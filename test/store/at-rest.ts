import { setTimeout as pause } from "node:timers/promises";
import Database from "better-sqlite3";
import { vi } from "vitest";

/** Resolves once a store on SQLite does nothing by itself: after new texts it keeps their index for a while. */
export const atRest = async (): Promise<void> => {
  const prepare = vi.spyOn(Database.prototype, "prepare");
  try {
    do {
      prepare.mockClear();
      await pause(1000);
    } while (prepare.mock.calls.length > 0);
  } finally {
    prepare.mockRestore();
  }
};
