import type { CompiledQuery } from "kysely";
import { DatabaseError, type Pool } from "pg";
import type { Reader } from "../sql/reader.ts";
import { unreadable } from "../unavailable.ts";
import { cancelQuery } from "./connection.ts";
import { endsSession } from "./fault.ts";

/** The most reads that may wait for a connection. */
const most = 1000;

/**
 * Slow reads of PostgreSQL, on connections of their own, so that commits find a connection however many reads there
 * are. A read whose signal aborts is also cancelled in the database, through the other pool; disposal does so for all
 * reads.
 */
export const createReader = (pool: Pool, other: Pool): Reader & AsyncDisposable => {
  const stopping = new AbortController();
  const running = new Set<Promise<unknown>>();

  const run = async <R>({ sql, parameters }: CompiledQuery<R>, signal: AbortSignal): Promise<R[]> => {
    const client = await pool.connect();
    let cancelling: Promise<void> | undefined;
    let broken = false;
    const drop = (): void => {
      cancelling = cancelQuery(client, other);
    };
    try {
      signal.throwIfAborted();
      signal.addEventListener("abort", drop, { once: true });
      const { rows } = await client.query(sql, [...parameters]);
      return rows as R[];
    } catch (error) {
      broken = error !== signal.reason && (!(error instanceof DatabaseError) || endsSession(error));
      throw error;
    } finally {
      signal.removeEventListener("abort", drop);
      // Released only after the cancellation, which might otherwise hit the next query.
      await cancelling;
      client.release(broken);
    }
  };

  return {
    async rows(query, signal) {
      signal?.throwIfAborted();
      if (pool.waitingCount >= most) throw unreadable(new Error(`${most} reads wait already`));
      const either = signal === undefined ? stopping.signal : AbortSignal.any([signal, stopping.signal]);
      const reading = run(query, either);
      running.add(reading);
      try {
        return await reading;
      } catch (error) {
        signal?.throwIfAborted();
        throw unreadable(error);
      } finally {
        running.delete(reading);
      }
    },
    async [Symbol.asyncDispose]() {
      stopping.abort(new Error("the store is closed"));
      await Promise.allSettled(running);
    },
  };
};
