import { ServiceError } from "../../error.ts";
import type { IdempotencyRecord } from "../../store/store.ts";
import type { Accepted, IdempotencyKey } from "../tasks.ts";

/** The idempotency key, its answer, and its replay. */

/** The key with its answer; `positionAs` lets the store name the event that does not stand yet. */
export const idempotencyRecord = (
  once: IdempotencyKey,
  status: number,
  body: object,
  positioned: boolean,
): IdempotencyRecord => ({
  ...once,
  answer: { status, body: { ...body } },
  ...(positioned ? { positionAs: "eventID" } : {}),
});

export const replay = <T>(
  bodyHash: string,
  stored: { status: number; body: unknown },
  once: IdempotencyKey | undefined,
): Accepted<T> => {
  if (bodyHash !== once?.bodyHash)
    throw new ServiceError(
      "idempotency_key_reused",
      "Expected the same body as the first request with this Idempotency-Key, got another.",
    );
  return { status: stored.status === 200 ? 200 : 202, body: stored.body as T, replayed: true };
};
