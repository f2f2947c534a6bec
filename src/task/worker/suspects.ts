import type { StreamID } from "../../domain/event.ts";
import { isSuspect } from "../../domain/task/crash.ts";
import type { Engine } from "../../engine/engine.ts";
import { createKeyedMutex } from "../../async/mutex.ts";
import type { Store } from "../../store/store.ts";

/**
 * After two deaths of the service in a row, those Tasks run first, one at a time, that were in the same step both
 * times. All other runs wait, without taking a place, until each of them has advanced, ended or stopped to run; but
 * what is to be ended ends at once.
 */
export type Suspects = {
  /** Await it before a run, and dispose the result after it. Rejects when the signal aborts. */
  pass(stream: StreamID, signal: AbortSignal): Promise<Disposable>;
  /** Whether this run has no other beside it. */
  isAlone(stream: StreamID): boolean;
  /** It has advanced: the others may run. */
  clear(stream: StreamID): void;
};

/** Streams that are looked at. What ran comes before what has waited, and no machine runs as many at a time. */
const most = 1000;

type Deps = { store: Pick<Store, "due" | "state">; engine: Pick<Engine, "standAside">; now: () => Date };

/** Call it before anything runs. */
export const findSuspects = async ({ store, engine, now }: Deps): Promise<Suspects> => {
  const suspects = new Set<StreamID>();
  for (const { stream } of await store.due(now(), most)) {
    const state = await store.state(stream);
    if (state !== undefined && isSuspect(state)) suspects.add(stream);
  }
  const turns = createKeyedMutex();
  const turn = new Map<StreamID, Disposable>();
  const over = Promise.withResolvers<void>();
  const clear = (stream: StreamID) => {
    suspects.delete(stream);
    turn.get(stream)?.[Symbol.dispose]();
    turn.delete(stream);
    if (suspects.size === 0) over.resolve();
  };
  const free: Disposable = { [Symbol.dispose]() {} };

  return {
    async pass(stream, signal) {
      if (suspects.size === 0) return free;
      using _aside = engine.standAside(stream);
      if (suspects.has(stream)) {
        turn.set(stream, await turns("", signal));
        return { [Symbol.dispose]: () => clear(stream) };
      }
      if ((await store.state(stream))?.cancel?.mode === "stop") return free;
      const aborted = Promise.withResolvers<never>();
      const abort = () => aborted.reject(signal.reason as Error);
      signal.addEventListener("abort", abort, { once: true });
      signal.throwIfAborted();
      await Promise.race([over.promise, aborted.promise]).finally(() => signal.removeEventListener("abort", abort));
      return free;
    },
    isAlone: (stream) => turn.has(stream),
    clear,
  };
};
