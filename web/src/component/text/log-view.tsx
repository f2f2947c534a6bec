import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDownToLine, Bug, Download, Search, WrapText } from "lucide-react";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";

/** The log of a command: it opens at the failing line, and can be searched, wrapped and downloaded. */

const lineHeight = 19;
/** Up to this many lines are all rendered, so that the browser's own search finds them. */
const mostWhole = 5000;
/** Longer lines are cut, because a line of megabytes would be rendered as a whole. */
const longest = 4000;

type Mark = { at: number; failed: boolean } | undefined;

const Line = ({ text, number, digits, mark }: { text: string; number: number; digits: number; mark: string }) => (
  <>
    <span
      aria-hidden="true"
      className="tabular shrink-0 text-right text-faint select-none"
      style={{ width: `${digits}ch` }}
    >
      {number}
    </span>
    <span className={`min-w-0 flex-1 ${mark}`}>{text.slice(0, longest)}</span>
  </>
);

const Tool = ({
  label,
  pressed,
  disabled = false,
  onClick,
  children,
}: {
  label: string;
  pressed?: boolean;
  disabled?: boolean;
  onClick: () => void;
  children: ReactNode;
}) => (
  <button
    type="button"
    className={`button button-quiet px-2 ${pressed === true ? "bg-hover" : ""}`}
    aria-label={label}
    title={label}
    {...(pressed === undefined ? {} : { "aria-pressed": pressed })}
    disabled={disabled}
    onClick={onClick}
  >
    {children}
  </button>
);

export const LogView = ({
  text,
  label,
  href,
  failedAt,
}: {
  text: string;
  label: string;
  /** The URL of the whole log. */
  href: string;
  /** Index of the line that says what failed. -1: the log opens at its end; undefined: at its beginning. */
  failedAt: number | undefined;
}) => {
  const lines = useMemo(() => text.replace(/\n$/, "").split("\n"), [text]);
  const whole = lines.length <= mostWhole;
  const scroller = useRef<HTMLDivElement>(null);
  const [wrap, setWrap] = useState(false);
  const [query, setQuery] = useState("");
  const [mark, setMark] = useState<Mark>();
  const rows = useVirtualizer({
    count: whole ? 0 : lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => lineHeight,
    overscan: 30,
  });
  const matches = useMemo(() => {
    const wanted = query.trim().toLowerCase();
    return wanted === "" ? [] : lines.flatMap((line, at) => (line.toLowerCase().includes(wanted) ? [at] : []));
  }, [lines, query]);

  const show = (at: number): void => {
    const pane = scroller.current;
    if (pane === null) return;
    const row = whole ? pane.querySelectorAll<HTMLElement>("[data-line]")[at] : undefined;
    const top = row === undefined ? at * lineHeight : row.offsetTop;
    pane.scrollTop = top - pane.clientHeight / 3;
  };
  const go = (at: number, failed = false): void => {
    setMark({ at, failed });
    show(at);
  };
  useEffect(() => {
    if (failedAt === undefined) return;
    if (failedAt < 0) show(lines.length - 1);
    else go(failedAt, true);
    // Only when the log opens; afterwards the reader's position stays.
  }, []);

  const found = mark === undefined || mark.failed ? -1 : matches.indexOf(mark.at);
  const next = (by: number): void => {
    const from = mark?.at ?? -1;
    const at =
      by > 0
        ? (matches.find((match) => match > from) ?? matches[0])
        : (matches.findLast((match) => match < from) ?? matches.at(-1));
    if (at !== undefined) go(at);
  };
  const digits = String(lines.length).length;
  const toneOf = (at: number): string =>
    mark?.at === at ? (mark.failed ? "bg-fail-tint text-fail" : "bg-need-tint text-need") : "";
  return (
    <div className="flex flex-col gap-2">
      <div className="flex flex-wrap items-center gap-1">
        <label className="flex min-w-40 flex-1 items-center gap-2 px-1 text-sm">
          <Search size={14} aria-hidden="true" className="shrink-0 text-faint" />
          <input
            type="search"
            aria-label={`Search: ${label}`}
            placeholder="Search"
            className="min-w-0 flex-1 bg-transparent py-1 outline-none"
            value={query}
            onChange={({ target }) => setQuery(target.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
            }}
          />
          <span role="status" className="tabular text-xs text-soft">
            {query.trim() === "" ? "" : found < 0 ? `${matches.length} lines` : `${found + 1} of ${matches.length}`}
          </span>
        </label>
        <Tool
          label="Jump to first error"
          disabled={failedAt === undefined || failedAt < 0}
          onClick={() => go(failedAt ?? 0, true)}
        >
          <Bug size={15} aria-hidden="true" />
        </Tool>
        <Tool label="Jump to end" onClick={() => show(lines.length - 1)}>
          <ArrowDownToLine size={15} aria-hidden="true" />
        </Tool>
        {whole && (
          <Tool label="Wrap lines" pressed={wrap} onClick={() => setWrap(!wrap)}>
            <WrapText size={15} aria-hidden="true" />
          </Tool>
        )}
        <a className="button button-quiet px-2" href={href} download aria-label="Download the log" title="Download">
          <Download size={15} aria-hidden="true" />
        </a>
      </div>
      <div
        ref={scroller}
        role="region"
        aria-label={label}
        tabIndex={0}
        dir="ltr"
        className="code relative max-h-[60vh] overflow-auto overscroll-contain rounded-xl bg-sunk py-2"
      >
        {whole ? (
          <div className={wrap ? "" : "w-max min-w-full"}>
            {lines.map((line, at) => (
              <div
                key={at}
                data-line
                className={`flex gap-4 px-3 ${wrap ? "[overflow-wrap:anywhere] whitespace-pre-wrap" : "whitespace-pre"}`}
                style={{ minHeight: lineHeight, lineHeight: `${lineHeight}px` }}
              >
                <Line text={line} number={at + 1} digits={digits} mark={toneOf(at)} />
              </div>
            ))}
          </div>
        ) : (
          <div className="relative w-max min-w-full" style={{ height: rows.getTotalSize() }}>
            {rows.getVirtualItems().map(({ index, start }) => (
              <div
                key={index}
                className="absolute flex gap-4 px-3 whitespace-pre"
                style={{ top: start, height: lineHeight, lineHeight: `${lineHeight}px` }}
              >
                <Line text={lines[index] ?? ""} number={index + 1} digits={digits} mark={toneOf(index)} />
              </div>
            ))}
          </div>
        )}
      </div>
    </div>
  );
};
