import type { StreamID } from "../../domain/event.ts";
import { isSuspect } from "../../domain/task/crash.ts";
import type { Engine } from "../../engine/engine.ts";
import { createKeyedMutex } from "../../async/mutex.ts";
import type { Store } from "../../store/store.ts";

/**
 * After the service has died twice in a row, the Tasks that were in the same step both times run first, one at a time.
 * All other runs wait, without taking a place, until each suspect has advanced, ended or stopped running; a Task that
 * is being cancelled does not wait.
 */
export type Suspects = {
  /** Await it before a run, and dispose the result after it. Rejects when the signal aborts. */
  pass(stream: StreamID, signal: AbortSignal): Promise<Disposable>;
  /** Whether this run is the only one. */
  isAlone(stream: StreamID): boolean;
  /** Call it when the Task has advanced: it is no longer a suspect. */
  clear(stream: StreamID): void;
};

/** How many due streams are examined. Those that were running come first, and no machine runs as many at a time. */
const most = 1000;

type Deps = { store: Pick<Store, "due" | "state">; engine: Pick<Engine, "standAside">; now: () => Date };

/** Finds the suspects. Call it before anything runs. */
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
