import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import type { Frame } from "../../../../src/protocol/event/frame.ts";
import { useFollow } from "../../live.ts";
import { createLog, type Log } from "./log.ts";

/** The log of a Task or a Mission: what there was up to the state that is shown, and then what comes. */

/** A burst of events asks for the state once. */
const refreshMs = 350;

export const useLog = (of: {
  page: (after: number, limit: number) => Promise<{ events: readonly Frame[]; nextAfter: number }>;
  url: string;
  /** The newest event of the state that is shown; undefined: not known yet. */
  last: number | undefined;
  /** Something happened: the state is another one. */
  onFacts: () => void;
  /** Which facts belong to it. */
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
