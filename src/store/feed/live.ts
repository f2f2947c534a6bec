import type { Position, StreamID } from "../../domain/event.ts";
import type { LiveFrame } from "../../protocol/event/frame.ts";
import type { Live } from "../store.ts";
import { createNow } from "./now.ts";

type Listener = (frame: LiveFrame, after: Position) => void;

/** How this node reaches the others. */
type Far = {
  frame: (frame: LiveFrame, after: Position) => void;
  /** Tells the others that these streams are read here. */
  watch: (streams: readonly StreamID[]) => void;
};

export type FarLive = Live &
  Disposable & {
    /** Passes a frame of another node to the readers here. */
    receive(frame: LiveFrame, after: Position): void;
    /** Notes that the stream is read at another node. */
    watched(stream: StreamID): void;
  };

/** How often other nodes are told of readers here, and how long that counts, in milliseconds. */
const watchMs = 3_000;
const watchedMs = 10_000;

/**
 * Live frames within one process and, through `far`, frames of streams that are read at other nodes. A listener must
 * not throw or block: it is called in the middle of a reply.
 */
export const createLive = (far?: Far): FarLive => {
  const listeners = new Map<StreamID, Set<Listener>>();
  /** Until when a stream counts as read at another node, by `performance.now()`. */
  const elsewhere = new Map<StreamID, number>();
  let timer: NodeJS.Timeout | undefined;

  const receive = (stream: StreamID, frame: LiveFrame, after: Position): void => {
    for (const listener of listeners.get(stream) ?? []) listener(frame, after);
  };
  const tell = (stream: StreamID, frame: LiveFrame, after: Position): void => {
    receive(stream, frame, after);
    if ((elsewhere.get(stream) ?? 0) > performance.now()) far?.frame(frame, after);
  };
  const watch = (): void => {
    const now = performance.now();
    for (const [stream, until] of elsewhere) if (until < now) elsewhere.delete(stream);
    if (listeners.size > 0) far?.watch([...listeners.keys()]);
  };
  const now = createNow(tell);
  return {
    publish(frame, after) {
      const stream = streamOf(frame);
      if (frame.type !== "now.delta") tell(stream, frame, after);
      now.take(stream, frame, after);
    },
    receive: (frame, after) => receive(streamOf(frame), frame, after),
    watched: (stream) => void elsewhere.set(stream, performance.now() + watchedMs),
    end: now.end,
    forget: now.forget,
    now: now.of,
    subscribe(stream, listener) {
      // A new function, so that the same listener can subscribe twice.
      const entry: Listener = (frame, after) => listener(frame, after);
      const set = listeners.get(stream) ?? new Set();
      listeners.set(stream, set.add(entry));
      if (far !== undefined) {
        if (set.size === 1) far.watch([stream]);
        timer ??= setInterval(watch, watchMs).unref();
      }
      return {
        [Symbol.dispose]() {
          set.delete(entry);
          if (set.size === 0 && listeners.get(stream) === set) listeners.delete(stream);
        },
      };
    },
    [Symbol.dispose]: () => clearInterval(timer),
  };
};

const streamOf = (frame: LiveFrame): StreamID => frame.taskID ?? frame.sessionID ?? "";
