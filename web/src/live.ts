import { useEffect, useRef, useSyncExternalStore } from "react";
import { openEvents, type StreamFrame } from "../../src/client/event-stream.ts";

/**
 * The page's live connection. A page has one event stream, which is closed after a while in a hidden tab, because a
 * browser opens only six connections to a host across all of its tabs.
 */

export type Connection = { state: "none" | "open" } | { state: "lost"; retryAt: number; since: number };

let connection: Connection = { state: "none" };
const listeners = new Set<() => void>();
const become = (next: Connection): void => {
  connection = next;
  for (const listener of listeners) listener();
};

/** When the page was last known to be up to date, in milliseconds. */
let current = Date.now();

const hiddenMs = 60_000;

export const useConnection = (): Connection =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => connection,
  );

export type Follow = {
  url: string;
  /** Whether `after` is known, so that the stream may begin. */
  ready: boolean;
  /** Id of the last event that the page shows; undefined: only new events are needed. */
  after: number | undefined;
  onFrames(frames: StreamFrame[]): void;
  /** Called whenever a connection is established: data that is read from now on includes all earlier events. */
  onOpen?(): void;
  /** The service refuses the stream, for example because it cannot continue after that event. */
  onRefused?(error: Error): void;
};

/** Follows a stream, and passes on all frames of one animation frame together. */
export const useFollow = (follow: Follow): void => {
  const { url, ready } = follow;
  const latest = useRef(follow);
  latest.current = follow;
  const begun = useRef<{ url: string; last: number | undefined }>({ url: "", last: undefined });
  useEffect(() => {
    if (!ready) return undefined;
    if (begun.current.url !== url) begun.current = { url, last: latest.current.after };
    let stop: AbortController | undefined;
    let waiting: StreamFrame[] = [];
    let due = 0;
    let hiding: ReturnType<typeof setTimeout> | undefined;
    const flush = () => {
      cancelAnimationFrame(due);
      due = 0;
      if (waiting.length === 0) return;
      const frames = waiting;
      waiting = [];
      latest.current.onFrames(frames);
    };
    const open = async () => {
      const cut = new AbortController();
      stop = cut;
      let lost = false;
      const stream = await openEvents({
        fetch: (...request) => fetch(...request),
        url,
        headers: {},
        after: begun.current.last,
        signal: cut.signal,
        tries: Number.POSITIVE_INFINITY,
        onState: (state) => {
          if (cut.signal.aborted) return;
          if (!state.open) {
            if (!lost) current = Date.now();
            lost = true;
            become({ state: "lost", retryAt: state.retryAt, since: current });
            return;
          }
          become({ state: "open" });
          latest.current.onOpen?.();
          lost = false;
        },
      });
      if (cut.signal.aborted) return;
      if (stream.error !== undefined) {
        latest.current.onRefused?.(stream.error instanceof Error ? stream.error : new Error(stream.error.message));
        return;
      }
      try {
        for await (const frame of stream.data) {
          if (cut.signal.aborted) return;
          if ("id" in frame) begun.current.last = frame.id;
          waiting.push(frame);
          due ||= requestAnimationFrame(flush);
        }
      } catch (error) {
        if (!cut.signal.aborted) latest.current.onRefused?.(error instanceof Error ? error : new Error(String(error)));
      }
    };
    const close = () => {
      stop?.abort();
      stop = undefined;
    };
    const onVisibility = () => {
      clearTimeout(hiding);
      if (document.visibilityState === "hidden") hiding = setTimeout(close, hiddenMs);
      else if (stop === undefined) void open();
    };
    document.addEventListener("visibilitychange", onVisibility);
    void open();
    return () => {
      document.removeEventListener("visibilitychange", onVisibility);
      clearTimeout(hiding);
      flush();
      close();
      become({ state: "none" });
    };
  }, [url, ready]);
};
