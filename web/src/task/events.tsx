import { useVirtualizer } from "@tanstack/react-virtual";
import { Search } from "lucide-react";
import { memo, useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { Frame } from "../../../src/protocol/event/frame.ts";
import { Waiting } from "../component/layout/empty.tsx";
import { useAnchor, useAnchorTo } from "../component/layout/anchor.ts";
import { useDebounced } from "../component/text/time.tsx";
import { useKeys } from "../component/keyboard.ts";
import { clock } from "../format.ts";
import { wordsFor } from "./conversation/fold.ts";
import type { Log } from "./conversation/log.ts";

const Row = memo(({ frame, open, onToggle }: { frame: Frame; open: boolean; onToggle: (id: number) => void }) => (
  <>
    <button
      type="button"
      aria-expanded={open}
      onClick={() => onToggle(frame.id)}
      className="grid w-full grid-cols-[auto_1fr] items-baseline gap-x-3 px-4 py-2 text-start -outline-offset-2 hover:bg-hover sm:grid-cols-[4.5rem_5rem_11rem_1fr] sm:px-6"
    >
      <span className="tabular text-xs text-faint max-sm:hidden">{frame.id}</span>
      <time dateTime={frame.at} className="tabular text-xs text-faint">
        {clock(frame.at)}
      </time>
      <code className="truncate font-mono text-xs text-soft">{frame.type}</code>
      <span className="truncate text-sm max-sm:col-span-2" dir="auto">
        {wordsFor(frame)}
      </span>
    </button>
    {open && (
      <pre
        className="code mx-4 mb-3 max-h-96 overflow-auto rounded-lg bg-sunk p-3 whitespace-pre-wrap sm:mx-6"
        tabIndex={0}
        role="region"
        aria-label={`Event ${frame.id}`}
      >
        {JSON.stringify(frame, null, 2)}
      </pre>
    )}
  </>
));

/** The complete log: every event with its data. */
export const Events = ({ log }: { log: Log }) => {
  const every = log.frames();
  const [text, setText] = useState("");
  const late = useDebounced(text.trim().toLowerCase(), 150);
  const frames = useMemo(
    () =>
      late === "" ? every : every.filter((frame) => `${frame.type} ${wordsFor(frame)}`.toLowerCase().includes(late)),
    [every, late],
  );
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set());
  const scroller = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const began = useRef(false);
  const [height] = useState(() => (matchMedia("(max-width: 40rem)").matches ? 60 : 37));
  const anchorTo = useAnchorTo(log.older() === "loading");
  const rows = useVirtualizer({
    count: frames.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => (opened.has(frames[index]?.id ?? -1) ? 300 : height),
    overscan: 12,
    anchorTo,
    scrollEndThreshold: 8,
    getItemKey: (index) => frames[index]?.id ?? index,
  });
  useAnchor(rows, frames[0]?.id);
  useEffect(() => {
    if (began.current || frames.length === 0) return;
    began.current = true;
    rows.scrollToIndex(frames.length - 1, { align: "end" });
  }, [frames.length, rows]);
  useKeys({
    f: (event) => {
      event.preventDefault();
      field.current?.focus();
    },
  });
  const toggle = useCallback((id: number) => {
    setOpened((now) => {
      const next = new Set(now);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  }, []);
  // Opening or closing a row changes its height, which the virtualizer caches.
  useEffect(() => rows.measure(), [opened, rows]);
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="flex shrink-0 items-center gap-3 px-3 py-1 sm:px-5">
        <div className="relative min-w-0 flex-1 sm:max-w-64">
          <Search
            size={15}
            aria-hidden="true"
            className="pointer-events-none absolute inset-y-0 left-2 my-auto text-faint"
          />
          <input
            ref={field}
            type="search"
            aria-label="Filter the events"
            placeholder="Filter"
            value={text}
            onChange={({ target }) => setText(target.value)}
            className="field border-transparent bg-transparent pl-8 text-sm"
          />
        </div>
        <span className="tabular text-xs text-faint">
          {log.older() === "loading"
            ? `${log.read().toLocaleString("en")} so far`
            : `${frames.length.toLocaleString("en")} events`}
        </span>
      </div>
      <div
        ref={scroller}
        tabIndex={0}
        role="region"
        aria-label="Events"
        className="min-h-0 flex-1 overflow-y-auto overscroll-contain -outline-offset-2"
      >
        {frames.length === 0 && log.older() === "loading" && (
          <div className="px-6">
            <Waiting lines={6} />
          </div>
        )}
        <div className="relative" style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map(({ index, start, key }) => {
            const frame = frames[index];
            if (frame === undefined) return null;
            const open = opened.has(frame.id);
            return (
              <div
                key={key}
                data-index={index}
                // Closed rows have a fixed height, so only open rows are measured.
                {...(open ? { ref: rows.measureElement } : {})}
                className="absolute inset-x-0 border-b border-line"
                style={{ transform: `translateY(${start}px)`, ...(open ? {} : { height }) }}
              >
                <Row frame={frame} open={open} onToggle={toggle} />
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
};
