import type { Position, StreamID } from "../../domain/event.ts";
import type { LiveFrame } from "../../protocol/event/frame.ts";
import type { Live } from "../store.ts";
import { createNow } from "./now.ts";

type Listener = (frame: LiveFrame, after: Position) => void;

/** Live frames within one process. A listener must not throw or block: it is called in the middle of a reply. */
export const createLive = (): Live => {
  const listeners = new Map<StreamID, Set<Listener>>();
  const tell = (stream: StreamID, frame: LiveFrame, after: Position): void => {
    for (const listener of listeners.get(stream) ?? []) listener(frame, after);
  };
  const now = createNow(tell);
  return {
    publish(frame, after) {
      const stream = frame.taskID ?? frame.sessionID ?? "";
      if (frame.type !== "now.delta") tell(stream, frame, after);
      now.take(stream, frame, after);
    },
    end: now.end,
    forget: now.forget,
    now: now.of,
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
