import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import type { Frame } from "../../../../src/protocol/event/frame.ts";
import { useFollow } from "../../live.ts";
import { createLog, type Log } from "./log.ts";

/** A burst of events reloads the state only once, after this many milliseconds. */
const refreshMs = 350;

/** The log of a Task or Mission: the events up to the state that is shown, then new ones as they arrive. */
export const useLog = (of: {
  page: (after: number, limit: number) => Promise<{ events: readonly Frame[]; nextAfter: number }>;
  url: string;
  /** Position of the newest event in the state that is shown; undefined: not known yet. */
  last: number | undefined;
  /** Called when new events have arrived, which make the state outdated. */
  onFacts: () => void;
  /** Which frames belong to the log; all by default. */
  own?: (frame: { taskID?: string }) => boolean;
}): Log => {
  const { page, url, last, onFacts, own = () => true } = of;
  const [log] = useState(() =>
    createLog(async (after, limit) => {
      const { events, nextAfter } = await page(after, limit);
      return { events: events.filter(own), nextAfter, more: events.length > 0 };
    }),
  );
  useSyncExternalStore(log.subscribe, log.version);
  const began = useRef(false);
  useEffect(() => {
    if (last === undefined || began.current) return;
    began.current = true;
    void log.load(last);
  }, [log, last]);
  const due = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const refresh = () => {
    due.current ??= setTimeout(() => {
      due.current = undefined;
      onFacts();
    }, refreshMs);
  };
  useEffect(() => () => clearTimeout(due.current), []);
  useFollow({
    url,
    ready: last !== undefined,
    after: last,
    onFrames: (frames) => {
      log.add(frames.filter((frame) => own(frame as { taskID?: string })));
      if (frames.some((frame) => "id" in frame)) refresh();
    },
    onOpen: refresh,
  });
  return log;
};
