import { setTimeout as pause } from "node:timers/promises";
import { type Kysely, sql } from "kysely";
import { DatabaseError } from "pg";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import type { Tables } from "../sql/schema.ts";
import { OutcomeUnknown } from "../unavailable.ts";
import { endsSession } from "./fault.ts";

/**
 * Transactions whose outcome is known. A connection that is lost after COMMIT was sent leaves open whether it was done;
 * the database knows by the transaction's id, and is asked on another connection.
 */

/** Transactions see what is in them through this. */
export type Trx = Kysely<Tables>;

/**
 * Runs one transaction: resolves if it was committed, rejects if nothing of it was kept. With `OutcomeUnknown` where
 * that could not be found out within `unknownMs`.
 */
export type Transact = <T>(work: (trx: Trx) => Promise<{ value: T; id: string }>) => Promise<T>;

/** The id of the transaction, for `Transact`. */
export const transactionID = sql<string>`txid_current()::text`;

/** A server that restarts, or a standby that takes over, has answered by then. */
const unknownMs = 60_000;

const againMs = 200;

export const createTransact = ({ db, log, signal }: { db: Trx; log: Log; signal: AbortSignal }): Transact => {
  const outcomeOf = async (id: string): Promise<"committed" | "aborted" | undefined> => {
    const until = performance.now() + unknownMs;
    while (performance.now() < until && !signal.aborted) {
      try {
        const { rows } = await sql<{ status: string | null }>`select txid_status(${id}::bigint) as status`.execute(db);
        const status = rows[0]?.status;
        if (status === "committed" || status === "aborted") return status;
        // Beyond what the database remembers.
        if (status !== "in progress") return undefined;
      } catch (error) {
        // The id is of the future: a standby took over that never had this transaction.
        if (error instanceof DatabaseError && error.code === "22023") return "aborted";
      }
      await pause(againMs, undefined, { signal }).catch(() => {});
    }
    return undefined;
  };

  return async (work) => {
    let sent: Awaited<ReturnType<typeof work>> | undefined;
    try {
      return await db.connection().execute(async (trx) => {
        await sql`begin isolation level read committed`.execute(trx);
        let done: NonNullable<typeof sent>;
        try {
          done = await work(trx);
        } catch (error) {
          // Without a connection it is rolled back as well.
          await sql`rollback`.execute(trx).catch(() => {});
          throw error;
        }
        sent = done;
        await sql`commit`.execute(trx);
        return done.value;
      });
    } catch (error) {
      if (sent === undefined || (error instanceof DatabaseError && !endsSession(error))) throw error;
      const outcome = await outcomeOf(sent.id);
      log.warn({ error: messageOf(error), outcome: outcome ?? "unknown" }, "the connection was lost during a commit");
      if (outcome === "committed") return sent.value;
      throw outcome === "aborted" ? error : new OutcomeUnknown(messageOf(error), { cause: error });
    }
  };
};
