import { sql } from "kysely";
import type { Pool } from "pg";
import type { Clock } from "../../clock.ts";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import type { HeldClaims } from "../batch/held-claim.ts";

/** The database's clock in milliseconds, the only clock that all workers of a database share. */
export const clock = sql<number>`floor(extract(epoch from clock_timestamp()) * 1000)::bigint`;
export const clockSQL = "floor(extract(epoch from clock_timestamp()) * 1000)::bigint";

/** Rows are locked in the same order everywhere, so that a renewal and a batch cannot deadlock. */
const renewal = `
  with own as (
    select s.stream from streams s join unnest($1::text[], $2::bigint[]) as held (stream, epoch)
      on s.stream = held.stream and s.epoch = held.epoch
     where s.holder is not null order by s.stream for update of s
  )
  update streams s set lease_until = ${clockSQL} + $3 from own where s.stream = own.stream
  returning s.stream, s.epoch`;

/**
 * Ends expired claims of all processes: raises the epoch, and makes an active stream due that would otherwise be
 * forgotten.
 */
const sweep = `
  with lapsed as (
    select stream from streams where holder is not null and lease_until < ${clockSQL}
     order by stream for update skip locked
  )
  update streams s set holder = null, lease_until = null, epoch = epoch + 1,
         due_seq = case when due_at is null and lifecycle = 'active' then due_seq + 1 else due_seq end,
         due_at = case when due_at is null and lifecycle = 'active' then coalesce($1::bigint, ${clockSQL}) else due_at end
    from lapsed where s.stream = lapsed.stream`;

/**
 * Renews the claims of this process, ends expired claims of any process, and gives up claims in time: a claim that was
 * not renewed within two thirds of its lease counts as lost here, a third of the lease before another worker may take
 * it. The pool must not be shared and needs a timeout per query, so that a renewal never waits behind other work.
 */
export const keepLeases = (options: {
  pool: Pool;
  held: HeldClaims;
  leaseMs: number;
  log: Log;
  now: Clock | undefined;
}): AsyncDisposable => {
  const { pool, held, leaseMs, log, now } = options;

  const giveUp = (): void => {
    for (const { stream, epoch, since } of held.entries())
      if (performance.now() - since > (leaseMs * 2) / 3) {
        log.warn({ stream }, "a claim could not be renewed in time and was given up");
        held.lose(stream, epoch);
      }
  };

  const renew = async (): Promise<void> => {
    // First of all: if this process was suspended for long, its claims must not be renewed.
    giveUp();
    const mine = held.entries().map(({ stream, epoch }) => ({ stream, epoch }));
    if (mine.length > 0) {
      const since = performance.now();
      const { rows } = await pool.query<{ stream: string; epoch: number }>(renewal, [
        mine.map(({ stream }) => stream),
        mine.map(({ epoch }) => epoch),
        leaseMs,
      ]);
      const renewed = new Set(rows.map(({ stream, epoch }) => `${stream} ${epoch}`));
      for (const { stream, epoch } of mine)
        if (renewed.has(`${stream} ${epoch}`)) held.renew(stream, epoch, since);
        else held.lose(stream, epoch);
    }
    await pool.query(sweep, [now?.().getTime() ?? null]);
  };

  let running: Promise<void> | undefined;
  const beat = (): void => {
    giveUp();
    running ??= renew()
      .catch((error: unknown) => log.warn({ error: messageOf(error) }, "claims could not be renewed"))
      .finally(() => {
        running = undefined;
      });
  };
  const timer = setInterval(beat, Math.min(1000, leaseMs / 10));
  beat();
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await running;
    },
  };
};
