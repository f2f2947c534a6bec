import { chmodSync, existsSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import Database from "better-sqlite3";
import { messageOf, StartError } from "../../error.ts";

/** Opens the SQLite file, and explains why it cannot be read or written. */

export const openFile = (file: string): Database.Database => {
  const inMemory = file === ":memory:";
  if (!inMemory) mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const fresh = !inMemory && !existsSync(file);
  const database = new Database(file, { timeout: 5000 });
  try {
    if (fresh) chmodSync(file, 0o600);
    database.pragma("journal_mode = WAL");
    database.pragma("synchronous = FULL");
    database.pragma("journal_size_limit = 67108864");
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
};

/** Runs a step of opening the store; its failure becomes a `StartError` with the remedy. */
export const orStartError = <T>(file: string, step: () => T): T => {
  try {
    return step();
  } catch (error) {
    throw notStarted(file, error);
  }
};

export const notStarted = (file: string, error: unknown): StartError => {
  if (error instanceof StartError) return error;
  return error instanceof Database.SqliteError && /NOTADB|CORRUPT/.test(error.code)
    ? new StartError(70, `The database ${file} is damaged: ${error.message}. Restore a backup.`)
    : new StartError(
        78,
        `The database ${file} could not be opened: ${messageOf(error)}. Check that there is free space and that this user may write there.`,
      );
};

/**
 * Errors after which nothing more may be written: after a failed sync, the page cache may differ from the disk, and a
 * retry would only hide that.
 */
export const isFatal = (error: unknown): boolean =>
  error instanceof Database.SqliteError && /CORRUPT|NOTADB|IOERR_(DIR_)?FSYNC|IOERR_READ/.test(error.code);
