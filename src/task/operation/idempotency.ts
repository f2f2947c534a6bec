import { ServiceError } from "../../error.ts";
import type { IdempotencyRecord } from "../../store/store.ts";
import type { Accepted, IdempotencyKey } from "../tasks.ts";

/** Idempotency keys of operations: the record that is committed with the effect, and the replay of a stored answer. */

/**
 * The key with its answer. `positioned`: the store fills in `eventID`, because the event's position is not known before
 * the commit.
 */
export const idempotencyRecord = (
  { scope, key, bodyHash }: IdempotencyKey,
  status: number,
  body: object,
  positioned: boolean,
): IdempotencyRecord => ({
  scope,
  key,
  bodyHash,
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
