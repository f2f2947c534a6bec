import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDownToLine, ChevronsDownUp, ChevronsUpDown, CircleAlert, Search } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import type { Topology } from "../../../../src/protocol/task/status.ts";
import { Waiting } from "../../component/layout/empty.tsx";
import { useAnchor, useAnchorTo } from "../../component/layout/anchor.ts";
import { useDebounced } from "../../component/text/time.tsx";
import { useKeys } from "../../component/keyboard.ts";
import { headOf, type Item, isError } from "./fold.ts";
import { Row, SayingRow } from "./row.tsx";
import type { Log } from "./log.ts";
import type { ReadMessage } from "./long-text.tsx";

/** The conversation. It may have any length, because only the visible rows are rendered. */

const textOf = (item: Item): string => {
  switch (item.kind) {
    case "said":
      return `${item.source} ${headOf(item.text)}`;
    case "turn":
      return `${item.agent} ${headOf(item.text)} ${item.calls.map((call) => `${call.tool} ${JSON.stringify(call.input)} ${call.output === null ? "" : headOf(call.output)}`).join(" ")} ${item.failure?.message ?? ""}`;
    case "fact":
      return item.words;
  }
};

const Tool = ({
  onClick,
  label,
  pressed,
  disabled,
  children,
}: {
  onClick: () => void;
  label: string;
  pressed?: boolean;
  disabled?: boolean;
  children: React.ReactNode;
}) => (
  <button
    type="button"
    onClick={onClick}
    title={label}
    aria-label={label}
    disabled={disabled}
    {...(pressed === undefined ? {} : { "aria-pressed": pressed })}
    className={`button button-quiet px-2 ${pressed === true ? "bg-accent-tint text-accent" : ""}`}
  >
    {children}
  </button>
);

export const Conversation = ({
  log,
  read,
  session,
  onAll,
  active,
  pending,
}: {
  log: Log;
  read: ReadMessage;
  session?: Topology["nodes"][number] | undefined;
  onAll?: () => void;
  active: boolean;
  /** Open asks, which are shown in a card below: their rows appear once they are answered. */
  pending: readonly { id: string }[];
}) => {
  const every = log.items();
  const items = useMemo(
    () =>
      every.filter(
        (item) =>
          (session === undefined || item.sessionID === session.sessionID) &&
          !(item.kind === "fact" && pending.some(({ id }) => id === item.askID)),
      ),
    [every, session, pending],
  );
  const saying = [...log.saying()].filter(
    ([, { sessionID }]) => session === undefined || sessionID === session.sessionID,
  );
  const [follow, setFollow] = useState(active);
  const [folded, setFolded] = useState(false);
  /** Ids of turns and calls whose folding differs from the others'. */
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const [text, setText] = useState("");
  const late = useDebounced(text.trim().toLowerCase(), 150);
  const [at, setAt] = useState(-1);
  const scroller = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const total = items.length + saying.length;
  const anchorTo = useAnchorTo(log.older() === "loading");
  const rows = useVirtualizer({
    count: total,
    getScrollElement: () => scroller.current,
    estimateSize: () => 96,
    overscan: 6,
    // Keeps the row that the user reads, and the end, in place when older turns are inserted above.
    anchorTo,
    scrollEndThreshold: 8,
    getItemKey: (index) => items[index]?.id ?? `saying-${saying[index - items.length]?.[0]}`,
  });

  const said = saying.reduce((sum, [, { text: words, reasoning }]) => sum + words.length + reasoning.length, 0);
  useEffect(() => {
    if (follow && total > 0) rows.scrollToIndex(total - 1, { align: "end" });
  }, [follow, total, said, rows]);
  useEffect(() => setFollow(active), [active]);
  useAnchor(rows, items[0]?.id);
  // A conversation opens at its end, where the result is.
  const begun = useRef(false);
  useEffect(() => {
    if (begun.current || items.length === 0) return;
    begun.current = true;
    rows.scrollToIndex(items.length - 1, { align: "end" });
  }, [items.length, rows]);

  const found = useMemo(
    () =>
      late === "" ? [] : items.flatMap((item, index) => (textOf(item).toLowerCase().includes(late) ? [index] : [])),
    [items, late],
  );
  const show = (index: number) => {
    setFollow(false);
    setAt(index);
    rows.scrollToIndex(index, { align: "center" });
  };
  useEffect(() => {
    if (found[0] !== undefined) show(found[0]);
    else setAt(-1);
    // A new search term jumps to its first match; matches that arrive later do not scroll.
  }, [late]);
  const step = (by: number) => {
    if (found.length === 0) return;
    const now = found.indexOf(at);
    const next = found[(now + by + found.length) % found.length];
    if (next !== undefined) show(next);
  };
  const firstError = useMemo(() => items.findIndex(isError), [items]);
  const move = (by: number) => {
    const visible = rows.getVirtualItems();
    const from = at >= 0 ? at : (visible[Math.floor(visible.length / 2)]?.index ?? 0) - by;
    show(Math.max(0, Math.min(items.length - 1, from + by)));
  };
  useKeys({
    f: (event) => {
      event.preventDefault();
      field.current?.focus();
    },
    j: () => move(1),
    k: () => move(-1),
    Enter: () => {
      const item = items[at];
      if (item !== undefined) toggle(`turn-${item.id}`);
    },
  });
  const toggle = (key: string) =>
    setOpened((now) => {
      const next = new Set(now);
      if (!next.delete(key)) next.add(key);
      return next;
    });

  return (
    <div className="flex h-full min-h-0 flex-col">
      <div role="toolbar" aria-label="Conversation" className="flex shrink-0 items-center gap-1 px-3 py-1 sm:px-5">
        <div className="relative min-w-0 flex-1 sm:max-w-64">
          <Search
            size={15}
            aria-hidden="true"
            className="pointer-events-none absolute inset-y-0 left-2 my-auto text-faint"
          />
          <input
            ref={field}
            type="search"
            aria-label="Search the conversation"
            placeholder="Search"
            value={text}
            onChange={({ target }) => setText(target.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
            }}
            className="field border-transparent bg-transparent pl-8 text-sm"
          />
        </div>
        <span role="status" className="tabular text-xs whitespace-nowrap text-faint">
          {late !== "" && (found.length === 0 ? "nothing found" : `${found.indexOf(at) + 1} of ${found.length}`)}
        </span>
        <span className="flex-1" />
        {session !== undefined && (
          <button type="button" className="button text-sm" onClick={onAll}>
            Only {session.agent} · show all
          </button>
        )}
        <Tool label="Jump to first error" disabled={firstError < 0} onClick={() => show(firstError)}>
          <CircleAlert size={16} aria-hidden="true" />
        </Tool>
        <Tool
          label={folded ? "Unfold all turns" : "Fold all turns"}
          pressed={folded}
          onClick={() => {
            setFolded(!folded);
            setOpened(new Set());
          }}
        >
          {folded ? <ChevronsUpDown size={16} aria-hidden="true" /> : <ChevronsDownUp size={16} aria-hidden="true" />}
        </Tool>
        <Tool label="Follow the end" pressed={follow} onClick={() => setFollow(!follow)}>
          <ArrowDownToLine size={16} aria-hidden="true" />
        </Tool>
      </div>
      {log.older() === "failed" && (
        <p role="alert" className="px-5 py-1 text-sm text-fail">
          Older events could not be read. Reload the page to try again.
        </p>
      )}
      <div
        ref={scroller}
        tabIndex={0}
        role="log"
        aria-label="Conversation"
        aria-live="off"
        onWheel={(event) => {
          if (event.deltaY < 0) setFollow(false);
        }}
        onTouchMove={() => setFollow(false)}
        className="min-h-0 flex-1 overflow-y-auto overscroll-contain -outline-offset-2"
      >
        {total === 0 && <div className="px-6">{log.older() === "loading" ? <Waiting lines={5} /> : null}</div>}
        <div className="relative mx-auto w-full max-w-4xl" style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map(({ index, key, start }) => {
            const item = items[index];
            const live = saying[index - items.length];
            return (
              <div
                key={key}
                ref={rows.measureElement}
                data-index={index}
                className={`absolute inset-x-0 px-4 py-2 sm:px-6 ${index === at ? "bg-accent-tint" : ""}`}
                style={{ transform: `translateY(${start}px)` }}
              >
                {item !== undefined ? (
                  <Row item={item} read={read} log={log} folded={folded} opened={opened} onToggle={toggle} />
                ) : (
                  live !== undefined && <SayingRow saying={live[1]} />
                )}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
};
