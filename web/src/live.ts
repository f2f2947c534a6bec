import { useEffect, useRef, useSyncExternalStore } from "react";
import { openEvents, type StreamFrame } from "../../src/client/event-stream.ts";

/**
 * The event stream, for as long as somebody looks. One stream for each page: a browser opens six connections to a host,
 * over all of its tabs, so a tab that nobody sees gives its own back after a while.
 */

export type Connection = { state: "none" | "open" } | { state: "lost"; retryAt: number; since: number };

let connection: Connection = { state: "none" };
const listeners = new Set<() => void>();
const become = (next: Connection): void => {
  connection = next;
  for (const listener of listeners) listener();
};

/** The last moment that the page was known to show what is. */
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
  /** Whether there is something to go on from. */
  ready: boolean;
  /** The id that the page already shows; undefined: from now on. */
  after: number | undefined;
  onFrames(frames: StreamFrame[]): void;
  /** Whenever a connection stands: what happened before is in whatever is read now. */
  onOpen?(): void;
  /** The service refuses to go on from there. */
  onRefused?(error: Error): void;
};

/** Follows a stream and hands over what came in one frame of the screen at once. */
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
