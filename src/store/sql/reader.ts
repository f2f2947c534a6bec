import type { CompiledQuery, Kysely } from "kysely";
import { unreadable } from "../unavailable.ts";
import type { Tables } from "./schema.ts";

/**
 * Reads whose time grows with the log, apart from those that the engine needs: on SQLite in a thread with a connection
 * of its own, on PostgreSQL on connections of their own.
 */
export interface Reader {
  /**
   * The rows of a query, as of a moment after the call: everything that was committed before the call is included.
   * Rejects with `store_unavailable`, or with the signal's reason once it aborts; a query that has not begun by then
   * never begins.
   */
  rows<R>(query: CompiledQuery<R>, signal?: AbortSignal): Promise<R[]>;
}

/** Reads on the shared connection, for queries that are known to touch few rows. */
export const readerOn = (db: Kysely<Tables>): Reader => ({
  async rows(query, signal) {
    signal?.throwIfAborted();
    try {
      return (await db.executeQuery(query)).rows;
    } catch (error) {
      throw unreadable(error);
    }
  },
});
