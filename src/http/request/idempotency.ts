import { ServiceError } from "../../error.ts";
import { hashOf } from "../../hash.ts";
import { quote } from "../../protocol/issue.ts";
import type { Nodes } from "../../store/node.ts";
import type { Store } from "../../store/store.ts";
import { idempotencyRecord, replay } from "../../task/operation/idempotency.ts";
import type { Accepted, IdempotencyKey } from "../../task/tasks.ts";
import { type HttpAnswer, json, type RequestContext } from "../response/response.ts";

/**
 * `Idempotency-Key` on POST routes: the same key and body get the first answer again. The answer is stored in the
 * commit of its effect (`IdempotencyRecord` in store/store.ts); this file does what comes before: replays, conflicts,
 * and keys whose first request is still running. Refusals are not stored.
 */

/** Visible ASCII, as header values require. */
export const keyForm = /^[\x21-\x7e]{1,255}$/;

/**
 * Resolves to a directory's canonical name: the real path (`/x` for `/x/`, `/x/.` and links to it), or the given path
 * when nothing exists there; for a directory that holds a repository, a name that is the same on every node. `earlier`:
 * the name that older versions of the service used instead.
 */
export type RealPath = (directory: string) => Promise<{ name: string; earlier?: string }>;

/** A key is scoped to the real directory, however a caller spells it: a retry may come from another client. */
export const onceKey = async (
  header: string | undefined,
  scope: { method: string; path: string; directory: string | undefined; user: string },
  /** The body to hash; called only when there is a key. */
  body: () => Uint8Array | string | undefined,
  realPath: RealPath,
): Promise<IdempotencyKey | undefined> => {
  if (header === undefined) return undefined;
  if (!keyForm.test(header))
    throw new ServiceError(
      "invalid_request",
      `Expected an Idempotency-Key of 1 to 255 visible ASCII characters, got ${quote(header)}.`,
    );
  const { name, earlier } = scope.directory === undefined ? { name: "" } : await realPath(scope.directory);
  const sent = body() ?? "";
  const scopeOf = (place: string): string => JSON.stringify([scope.method, scope.path, place, scope.user]);
  return {
    scope: scopeOf(name),
    ...(earlier === undefined ? {} : { earlier: scopeOf(earlier) }),
    key: header,
    bodyHash: await hashOf(typeof sent === "string" ? Buffer.from(sent) : sent),
  };
};

export type RunOnce = <T>(once: IdempotencyKey | undefined, run: () => Promise<Accepted<T>>) => Promise<Accepted<T>>;

/**
 * The stored answer to an earlier request with this key; undefined: there is none. Throws when that request's body
 * differed.
 */
const answeredBefore = async <T>(
  store: Pick<Store, "once">,
  once: IdempotencyKey,
): Promise<Accepted<T> | undefined> => {
  const found =
    (await store.once(once.scope, once.key)) ??
    (once.earlier === undefined ? undefined : await store.once(once.earlier, once.key));
  if (found === undefined) return undefined;
  if (found.bodyHash !== once.bodyHash) throw reused(once.key);
  const { status, body } = found.stored;
  return { status: status === 200 ? 200 : 202, body: body as T, replayed: true };
};

const idOf = ({ scope, key }: IdempotencyKey): string => `${scope}\n${key}`;

export const createRunOnce = (store: Pick<Store, "once">): RunOnce => {
  /** Keys whose first request is still running, with the hash of its body. */
  const open = new Map<string, string>();
  return async <T>(once: IdempotencyKey | undefined, run: () => Promise<Accepted<T>>): Promise<Accepted<T>> => {
    if (once === undefined) return run();
    const id = idOf(once);
    const running = open.get(id);
    if (running !== undefined) {
      if (running !== once.bodyHash) throw reused(once.key);
      throw inProgress(once.key);
    }
    open.set(id, once.bodyHash);
    try {
      return (await answeredBefore<T>(store, once)) ?? (await run());
    } finally {
      open.delete(id);
    }
  };
};

const reused = (key: string): ServiceError =>
  new ServiceError(
    "idempotency_key_reused",
    `Expected the Idempotency-Key ${quote(key)} with the body it was first sent with, got another body.`,
  );

const inProgress = (key: string): ServiceError =>
  new ServiceError(
    "idempotency_in_progress",
    `Expected the first request with the key ${quote(key)} to have been answered, got a second one before that. Try again.`,
  );

export type AnswerOnce = <T extends object>(
  entry: RequestContext,
  once: IdempotencyKey | undefined,
  run: () => Promise<T>,
) => Promise<HttpAnswer>;

/**
 * For operations without a commit of their own: the key and the answer are committed after the effect, and until then
 * no other node can begin the operation. After a crash in between, the next request runs the operation again.
 */
export const createAnswerOnce = (
  store: Pick<Store, "commit" | "once"> & { nodes?: Pick<Nodes, "turn"> },
  runOnce: RunOnce,
): AnswerOnce => {
  const runAndKeep = async <T extends object>(once: IdempotencyKey, run: () => Promise<T>): Promise<Accepted<T>> => {
    const made = await run();
    const done = await store.commit({ appends: [], once: idempotencyRecord(once, 200, made, false) });
    if (!done.ok && done.reason === "once") return replay(done.bodyHash, done.stored, once);
    return { status: 200, body: made, replayed: false };
  };
  const runAmongNodes = async <T extends object>(once: IdempotencyKey, run: () => Promise<T>): Promise<Accepted<T>> => {
    if (store.nodes === undefined) return runAndKeep(once, run);
    await using turn = await store.nodes.turn(`once ${idOf(once)}`);
    if (turn === undefined) throw inProgress(once.key);
    // Another node may have stored an answer since this one last looked.
    return (await answeredBefore<T>(store, once)) ?? (await runAndKeep(once, run));
  };
  return async <T extends object>(entry: RequestContext, once: IdempotencyKey | undefined, run: () => Promise<T>) => {
    const { body, replayed } = await runOnce<T>(
      once,
      async (): Promise<Accepted<T>> =>
        once === undefined ? { status: 200, body: await run(), replayed: false } : runAmongNodes(once, run),
    );
    return json(entry, 200, body, replayed ? { "idempotent-replayed": "true" } : undefined);
  };
};
