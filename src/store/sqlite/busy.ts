import { setTimeout as wait } from "node:timers/promises";
import Database from "better-sqlite3";
import { type CompiledQuery, type DatabaseConnection, type QueryResult, SqliteDialect, SqliteDriver } from "kysely";
import type { DiskSync } from "./disk-sync.ts";

/**
 * For writes while somebody else writes to the file: a backup, or a person with the SQLite shell. SQLite would wait for
 * them within the call, which would block the whole service. So it is told not to wait, and the writer tries again.
 */

export const patienceMs = 5000;
export const stepMs = 20;

export const isBusy = (error: unknown): boolean =>
  error instanceof Database.SqliteError && error.code.startsWith("SQLITE_BUSY");

/** From now on, a write that somebody else blocks fails at once; `inCall`: it waits within the call, as at first. */
export const setPatience = (database: Database.Database, inCall: boolean): void => {
  database.pragma(`busy_timeout = ${inCall ? patienceMs : 0}`);
};

/** The first try is within the call. Rejects with the last error once others have blocked the write for too long. */
export const patiently = async <T>(work: () => T | Promise<T>): Promise<T> => {
  const until = performance.now() + patienceMs;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isBusy(error) || performance.now() > until) throw error;
    }
    await wait(stepMs);
  }
};

/** Queries on a connection that blocks the thread neither for other writers nor for the disk. */
export const patientDialect = (database: Database.Database, disk: DiskSync): SqliteDialect => {
  const config = { database };
  const dialect = new SqliteDialect(config);
  dialect.createDriver = () => {
    const driver = new SqliteDriver(config);
    const acquire = driver.acquireConnection.bind(driver);
    driver.acquireConnection = async () => patientConnection(await acquire(), database, disk);
    return driver;
  };
  return dialect;
};

const patientConnection = (
  connection: DatabaseConnection,
  database: Database.Database,
  disk: DiskSync,
): DatabaseConnection => ({
  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    const result = await patiently(() => connection.executeQuery<R>(query));
    const written = !database.inTransaction && !/^\s*select\b/i.test(query.sql);
    if (written) await disk.sync();
    return result;
  },
  streamQuery: (query, size) => connection.streamQuery(query, size),
});
