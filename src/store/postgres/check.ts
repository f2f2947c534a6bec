import { setTimeout as pause } from "node:timers/promises";
import { sql } from "kysely";
import { DatabaseError } from "pg";
import { unavailable } from "../unavailable.ts";
import type { Trx } from "./outcome.ts";

/** Whether a write could be made now: takes the lock that every write takes, for a moment, and writes nothing. */

/** The caller wants an answer within two and a half seconds. */
const longestMs = 2_400;
const lockMs = 1_500;
/** A write normally takes milliseconds. */
const underWayMs = 2_000;

const begin = sql`begin isolation level read committed`;
const take = sql.raw(`set local lock_timeout = ${lockMs}; select position from log for update`);

/** `underWay`: for how long the service's own write has been under way, in milliseconds; 0: none is. */
export const createCheck = (db: Trx, underWay: () => number): (() => Promise<void>) => {
  const lock = (): Promise<void> =>
    db.connection().execute(async (own) => {
      await begin.execute(own);
      try {
        await take.execute(own);
      } finally {
        await sql`rollback`.execute(own);
      }
    });

  const look = async (): Promise<void> => {
    const waited = underWay();
    if (waited > underWayMs) throw new Error(`a write has been under way for ${Math.round(waited / 1000)} s`);
    const over = new AbortController();
    const late = async () => {
      await pause(longestMs, undefined, { signal: over.signal, ref: false });
      throw new Error(`the database did not answer within ${longestMs} ms`);
    };
    try {
      await Promise.race([lock(), late()]);
    } catch (error) {
      const held = error instanceof DatabaseError && error.code === "55P03";
      throw held ? new Error("another process holds the lock that a write needs", { cause: error }) : error;
    } finally {
      over.abort();
    }
  };

  /** Callers that ask at the same time share one look. */
  let looking: Promise<void> | undefined;
  return async () => {
    try {
      await (looking ??= look().finally(() => {
        looking = undefined;
      }));
    } catch (error) {
      throw unavailable(error);
    }
  };
};
