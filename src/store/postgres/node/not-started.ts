import { type Kysely, sql } from "kysely";
import { DatabaseError } from "pg";
import { messageOf, StartError } from "../../../error.ts";
import type { Log } from "../../../log.ts";
import type { Tables } from "../../sql/schema.ts";
import { leastConnections as least, mostConnections as most } from "../connection.ts";

/** Why a service cannot start on a database: one line each, with the remedy. */

/** The connections of this service during the check: that of its lock, and that of the check itself. */
const own = 2;
const remedy = "raise max_connections, or the limit of the user or the database, or stop what uses them";

export const startErrorOf = (error: unknown): StartError =>
  error instanceof StartError
    ? error
    : new StartError(69, `PostgreSQL could not be used: ${messageOf(error)}. ${remedyOf(error)}`);

const remedyOf = (error: unknown): string => {
  switch (error instanceof DatabaseError ? error.code : undefined) {
    case "53300":
      return `A service needs ${least} to ${most} connections: ${remedy}.`;
    case "42501":
      return "Grant the user all rights on the schema, and to create schemas in the database; for a single service SERVICE_ENGINE=local needs no such right.";
    default:
      return "Check SERVICE_DATABASE_URL.";
  }
};

/** Throws `StartError` if the service could not work for lack of connections; warns if it may run out of them. */
export const expectConnections = async (db: Kysely<Tables>, log: Log): Promise<void> => {
  const { rows } = await sql<{ free: number }>`
    select least(
      current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true), '0')::int - (select sum(numbackends) from pg_stat_database),
      (select case when rolconnlimit < 0 or rolsuper then 100000 else rolconnlimit end
         - (select count(*) from pg_stat_activity where usename = current_user)
         from pg_roles where rolname = current_user),
      (select case when datconnlimit < 0 then 100000 else datconnlimit end from pg_database where datname = current_database())
        - (select numbackends from pg_stat_database where datname = current_database())
    )::int as free`.execute(db);
  const free = Math.max(0, rows[0]?.free ?? most) + own;
  if (free < least)
    throw new StartError(
      69,
      `PostgreSQL has ${free} connections for this service, which needs ${least} to ${most}: ${remedy}.`,
    );
  if (free < most) log.warn({ free, most: most }, `PostgreSQL may run out of connections: ${remedy}`);
};
