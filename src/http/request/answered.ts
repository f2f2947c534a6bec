import type { Store } from "../../store/store.ts";
import type { Accepted, IdempotencyKey } from "../../task/tasks.ts";
import { idempotencyRecord, replay } from "../../task/operation/idempotency.ts";
import type { RunOnce } from "./idempotency.ts";
import { type HttpAnswer, type RequestContext, json } from "../response/response.ts";

export type Answered = <T extends object>(
  entry: RequestContext,
  once: IdempotencyKey | undefined,
  run: () => Promise<T>,
) => Promise<HttpAnswer>;

/** For what has no commit of its own to store the answer in: its key is committed after it. */
export const createAnswerOnce =
  (store: Pick<Store, "commit">, runOnce: RunOnce): Answered =>
  async <T extends object>(entry: RequestContext, once: IdempotencyKey | undefined, run: () => Promise<T>) => {
    const { body, replayed } = await runOnce<T>(once, async (): Promise<Accepted<T>> => {
      const made = await run();
      if (once === undefined) return { status: 200, body: made, replayed: false };
      const done = await store.commit({ appends: [], once: idempotencyRecord(once, 200, made, false) });
      if (!done.ok && done.reason === "once") return replay(done.bodyHash, done.stored, once);
      return { status: 200, body: made, replayed: false };
    });
    return json(entry, 200, body, replayed ? { "idempotent-replayed": "true" } : undefined);
  };
