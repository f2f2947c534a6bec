import { setTimeout as pause } from "node:timers/promises";
import { type CompiledQuery, type Kysely, type RawBuilder, sql, type SqlBool } from "kysely";
import type { Reader } from "./reader.ts";
import type { Tables } from "./schema.ts";

/** How rows that no commit writes are changed. */

/** Runs several statements in one transaction. On SQLite, no other code runs until the transaction has ended. */
export type Atomically = (queries: readonly CompiledQuery[]) => Promise<void>;

/** Rows per statement, and the pause after it in milliseconds. */
const step = 500;
const pauseMs = 10;

/** Deletes all rows that match, however many, a few at a time, so that other work gets its turn. */
export const removeInSteps = async (
  db: Kysely<Tables>,
  reader: Reader,
  table: "answers" | "deliveries",
  where: RawBuilder<SqlBool>,
): Promise<void> => {
  for (;;) {
    const found = await reader.rows(
      sql<{ id: string }>`select id from ${sql.table(table)} where ${where} limit ${step}`.compile(db),
    );
    const ids = found.map(({ id }) => id);
    // They may have changed since they were found.
    if (ids.length > 0)
      await sql`delete from ${sql.table(table)} where id in (${sql.join(ids)}) and ${where}`.execute(db);
    if (ids.length < step) return;
    await pause(pauseMs);
  }
};
