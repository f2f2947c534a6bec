import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { type Kysely, sql } from "kysely";
import { DatabaseError } from "pg";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import type { Tables } from "../sql/schema.ts";
import { OutcomeUnknown } from "../unavailable.ts";
import { endsSession } from "./fault.ts";

/**
 * Transactions whose outcome is known. A connection that is lost after COMMIT was sent leaves it open whether the
 * transaction was committed; the database knows it by the transaction's id, and is asked on another connection. After a
 * crash, the server may have given the id of a lost transaction to another one, so "committed" then proves nothing.
 */

/** The handle on a transaction, through which queries see its changes. */
export type Trx = Kysely<Tables>;

/**
 * Runs one transaction: resolves if it was committed, rejects if nothing of it was kept. Rejects with `OutcomeUnknown`
 * if that could not be found out within `unknownMs`, or if the server crashed meanwhile.
 */
export type Transact = <T>(work: (trx: Trx) => Promise<{ value: T; id: string }>) => Promise<T>;

/** The id of the transaction, for `Transact`. */
export const transactionID = sql<string>`txid_current()::text`;

/** A server that restarts, or a standby that takes over, has answered by then. */
const unknownMs = 60_000;

const againMs = 200;

/** The time between two crashes of the server. `now`: the era that was read last. */
export type Era = {
  now(): string;
  /** Whether the server has crashed, or a standby has taken over, since `before`. */
  isOver(before: string): Promise<boolean>;
};

/**
 * PostgreSQL empties an unlogged table when it recovers from a crash and when a standby takes over, and keeps it
 * through a clean shutdown. Older versions ignore the table.
 */
export const openEra = async (db: Trx): Promise<Era> => {
  const table = sql`create unlogged table if not exists eras (id integer primary key, era text not null)`;
  // Two services that create it at once clash; on the second try it exists.
  await table.execute(db).catch(() => table.execute(db));
  const read = async (): Promise<string> => {
    await sql`insert into eras (id, era) values (1, ${randomUUID()}) on conflict do nothing`.execute(db);
    const { rows } = await sql<{ era: string }>`select era from eras where id = 1`.execute(db);
    return rows[0]?.era ?? "";
  };
  let known = await read();
  return {
    now: () => known,
    async isOver(before) {
      known = await read();
      return known !== before;
    },
  };
};

type Options = { db: Trx; era: Era; log: Log; signal: AbortSignal };

export const createTransact = ({ db, era, log, signal }: Options): Transact => {
  const outcomeOf = async (id: string, before: string): Promise<"committed" | "aborted" | undefined> => {
    const until = performance.now() + unknownMs;
    while (performance.now() < until && !signal.aborted) {
      try {
        const { rows } = await sql<{ status: string | null }>`select txid_status(${id}::bigint) as status`.execute(db);
        const status = rows[0]?.status;
        if (status === "aborted") return status;
        if (status === "committed") return (await era.isOver(before)) ? undefined : status;
        // The database does not remember transactions this old.
        if (status !== "in progress") return undefined;
      } catch (error) {
        // The id is in the future: a standby took over that never had this transaction.
        if (error instanceof DatabaseError && error.code === "22023") return "aborted";
      }
      await pause(againMs, undefined, { signal }).catch(() => {});
    }
    return undefined;
  };

  return async (work) => {
    let sent: Awaited<ReturnType<typeof work>> | undefined;
    const before = era.now();
    try {
      return await db.connection().execute(async (trx) => {
        await sql`begin isolation level read committed`.execute(trx);
        let done: NonNullable<typeof sent>;
        try {
          done = await work(trx);
        } catch (error) {
          // Without a connection, the server rolls it back by itself.
          await sql`rollback`.execute(trx).catch(() => {});
          throw error;
        }
        sent = done;
        await sql`commit`.execute(trx);
        return done.value;
      });
    } catch (error) {
      if (sent === undefined || (error instanceof DatabaseError && !endsSession(error))) throw error;
      const outcome = await outcomeOf(sent.id, before);
      log.warn({ error: messageOf(error), outcome: outcome ?? "unknown" }, "the connection was lost during a commit");
      if (outcome === "committed") return sent.value;
      throw outcome === "aborted" ? error : new OutcomeUnknown(messageOf(error), { cause: error });
    }
  };
};
