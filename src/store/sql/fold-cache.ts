import type { StreamID } from "../../domain/event.ts";
import { type Fold, streamOf } from "./fold.ts";

export type Cache = {
  get(stream: StreamID): Fold | undefined;
  set(state: Fold): void;
  delete(stream: StreamID): void;
};

/** A cache of the newest folds, least recently used ones evicted first. */
export const createCache = (limit = 1000): Cache => {
  const states = new Map<StreamID, Fold>();
  return {
    get(stream) {
      const state = states.get(stream);
      if (state === undefined) return undefined;
      states.delete(stream);
      states.set(stream, state);
      return state;
    },
    set(state) {
      states.delete(streamOf(state));
      states.set(streamOf(state), state);
      if (states.size <= limit) return;
      const [oldest] = states.keys();
      if (oldest !== undefined) states.delete(oldest);
    },
    delete(stream) {
      states.delete(stream);
    },
  };
};
