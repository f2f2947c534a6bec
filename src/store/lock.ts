import { mkdirSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { messageOf, StartError } from "../errors.ts";

/**
 * One server per data folder. The lock is the operating system's, taken through a small SQLite file of its own: it
 * ends with the process, however that ends, and needs no clean-up.
 */
export const lockFolder = async (dataDir: string): Promise<Disposable> => {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const path = join(dataDir, "lock.db");
  let database: Database.Database | undefined;
  try {
    database = new Database(path, { timeout: 0 });
    database.pragma("journal_mode = MEMORY");
    database.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    database?.close();
    if (error instanceof Database.SqliteError && error.code.startsWith("SQLITE_BUSY"))
      throw new StartError(
        75,
        `Another server already uses the data folder ${dataDir}. Stop it, or start this one with another folder (--data-dir or SERVICE_DATA_DIR).`,
      );
    throw new StartError(
      75,
      `The data folder ${dataDir} could not be locked: ${messageOf(error)}. Is ${path} writable?`,
    );
  }
  const held = database;
  return { [Symbol.dispose]: () => void held.close() };
};
