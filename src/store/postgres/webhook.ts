import { readerOn, type Reader } from "../sql/reader.ts";
import { createWebhooks, webhookWrites } from "../sql/webhook.ts";
import type { Atomically } from "../sql/write.ts";
import { unavailable, withErrors } from "../unavailable.ts";
import type { Webhooks } from "../webhook-queue.ts";
import { retryingEach } from "./fault.ts";
import type { Trx } from "./outcome.ts";

/** The webhook queue on PostgreSQL: its writes run in transactions, so that their outcome can be found out. */

export const runAll = async (trx: Trx, queries: Parameters<Atomically>[0]): Promise<void> => {
  for (const query of queries) await trx.executeQuery(query);
};

/** `apart`: runs a write in a transaction of its own. */
export const webhooksOn = (options: {
  db: Trx;
  reader: Reader;
  atomically: Atomically;
  apart: <T>(work: (trx: Trx) => Promise<T>) => Promise<T>;
  signal: AbortSignal;
}): Webhooks => {
  const { db, reader, atomically, apart, signal } = options;
  const plain = createWebhooks(db, reader, atomically);
  const within =
    (name: (typeof webhookWrites)[number]) =>
    (...given: never[]): Promise<unknown> =>
      apart((trx) => {
        const inside = createWebhooks(trx, readerOn(trx), (queries) => runAll(trx, queries));
        return (inside[name] as (...same: never[]) => Promise<unknown>)(...given);
      });
  return withErrors(
    { ...retryingEach(plain, signal), ...Object.fromEntries(webhookWrites.map((name) => [name, within(name)])) },
    unavailable,
  );
};
