import { hash } from "node:crypto";
import { lstatSync, mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import Database from "better-sqlite3";
import { messageOf, ServiceError, StartError } from "../error.ts";

/**
 * A lock of the operating system, taken through a small SQLite file: it ends with the process, however that ends, and
 * needs no clean-up. undefined: another process holds it.
 */
const take = (path: string): Disposable | undefined => {
  let database: Database.Database | undefined;
  try {
    database = new Database(path, { timeout: 0 });
    database.pragma("journal_mode = MEMORY");
    database.exec("BEGIN EXCLUSIVE");
  } catch (error) {
    database?.close();
    if (error instanceof Database.SqliteError && error.code.startsWith("SQLITE_BUSY")) return undefined;
    throw error;
  }
  const held = database;
  return { [Symbol.dispose]: () => void held.close() };
};

/**
 * Locks the data folder, so that one server at a time uses it. Throws `StartError` with exit code 75 if another one
 * does.
 */
export const lockFolder = async (dataDir: string): Promise<Disposable> => {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const path = join(dataDir, "lock.db");
  let lock: Disposable | undefined;
  try {
    lock = take(path);
  } catch (error) {
    throw new StartError(
      75,
      `The data folder ${dataDir} could not be locked: ${messageOf(error)}. Is ${path} writable?`,
    );
  }
  if (lock !== undefined) return lock;
  throw new StartError(
    75,
    `Another server already uses the data folder ${dataDir}. Stop it, or start this one with another folder (--data-dir or SERVICE_DATA_DIR).`,
  );
};

/**
 * A lock that all services of this user on this machine share by name, whatever their data folders. undefined: it was
 * not free within `waitMs`. Lock files are never removed, since two processes could then hold the same lock. So names
 * share 256 files, and the holder of a lock must not ask for another.
 */
export const lockName = async (name: string, waitMs: number): Promise<Disposable | undefined> => {
  const uid = process.getuid?.();
  const folder = join(tmpdir(), `sortie-${uid ?? "locks"}`);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const stats = lstatSync(folder);
  if (!stats.isDirectory() || (uid !== undefined && stats.uid !== uid))
    throw new ServiceError("store_unavailable", `Expected ${folder} to be a folder of this service's user.`);
  const path = join(folder, `${hash("sha256", name, "hex").slice(0, 2)}.lock`);
  const deadline = performance.now() + waitMs;
  for (;;) {
    const lock = take(path);
    if (lock !== undefined || performance.now() > deadline) return lock;
    await wait(20);
  }
};
