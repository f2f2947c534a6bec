import type { Position, StreamID } from "../../domain/event.ts";
import type { LiveFrame } from "../../protocol/event/frame.ts";
import type { Live } from "../store.ts";

type Listener = (frame: LiveFrame, after: Position) => void;

/** Live frames within one process. A listener must not throw or block: it is called in the middle of a reply. */
export const createLive = (): Live => {
  const listeners = new Map<StreamID, Set<Listener>>();
  return {
    publish(frame, after) {
      for (const listener of listeners.get(frame.taskID ?? frame.sessionID ?? "") ?? []) listener(frame, after);
    },
    subscribe(stream, listener) {
      // A new function, so that the same listener can subscribe twice.
      const entry: Listener = (frame, after) => listener(frame, after);
      const set = listeners.get(stream) ?? new Set();
      listeners.set(stream, set.add(entry));
      return {
        [Symbol.dispose]() {
          set.delete(entry);
          if (set.size === 0 && listeners.get(stream) === set) listeners.delete(stream);
        },
      };
    },
  };
};
