import { type Kysely, sql } from "kysely";
import { StartError } from "../../../error.ts";
import { migrations, release, releaseOf } from "./history.ts";
import type { Kind, Tables } from "../schema.ts";

/**
 * Runs the migrations of `history.ts`. All missing ones run in one transaction: a start that is killed leaves the old
 * schema.
 */

/**
 * Brings the schema up to date. `backup` runs before the first change to a database that is not new; its argument is
 * the name of the newest migration in it.
 */
export const migrate = async (
  db: Kysely<Tables>,
  kind: Kind,
  backup: (from: string) => Promise<void> = async () => {},
): Promise<void> => {
  await db.transaction().execute(async (trx) => {
    // If two processes start at the same time on PostgreSQL, the second one waits here and then finds nothing to do.
    if (kind === "postgres")
      await sql`select pg_advisory_xact_lock(hashtext('sortie'), hashtext('migrate'))`.execute(trx);
    await trx.schema
      .createTable("migrations")
      .ifNotExists()
      .addColumn("name", "text", (column) => column.primaryKey())
      .addColumn("at", "text", (column) => column.notNull())
      .execute();
  });
  const applied = await db.selectFrom("migrations").select("name").orderBy("name").execute();
  const known = new Set(migrations.map(({ name }) => name));
  // The migrations of the next version only add, so they do no harm.
  const unknown = applied.find(({ name }) => !known.has(name) && releaseOf(name) > release + 1);
  if (unknown !== undefined)
    throw new StartError(
      78,
      `The database holds the migration ${unknown.name}, which this version does not know: it was written by one that is at least two versions newer. Start that version or the one before it, or use another database.`,
    );
  const newest = applied.at(-1)?.name;
  const done = new Set(applied.map(({ name }) => name));
  if (migrations.every(({ name }) => done.has(name))) return;
  if (newest !== undefined) await backup(newest);
  await db.transaction().execute(async (trx) => {
    if (kind === "postgres")
      await sql`select pg_advisory_xact_lock(hashtext('sortie'), hashtext('migrate'))`.execute(trx);
    const meanwhile = new Set((await trx.selectFrom("migrations").select("name").execute()).map(({ name }) => name));
    for (const migration of migrations) {
      const { name } = migration;
      if (meanwhile.has(name)) continue;
      await migration.up(trx, kind);
      await trx.insertInto("migrations").values({ name, at: new Date().toISOString() }).execute();
    }
  });
};
