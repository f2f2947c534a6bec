import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef } from "react";

/** A text of any length; only the visible lines are rendered. */
const lineHeight = 19;
/** Longer lines are cut, because one of megabytes would be rendered as a whole. */
const longest = 4000;

export const Lines = ({ text, label, fill = false }: { text: string; label: string; fill?: boolean }) => {
  const lines = useMemo(() => text.replace(/\n$/, "").split("\n"), [text]);
  const scroller = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => lineHeight,
    overscan: 30,
  });
  const digits = String(lines.length).length;
  return (
    <div
      ref={scroller}
      role="region"
      aria-label={label}
      tabIndex={0}
      dir="ltr"
      className={`code overflow-auto overscroll-contain rounded-xl bg-sunk py-2 ${fill ? "h-full" : "max-h-[60vh]"}`}
    >
      <div className="relative w-max min-w-full" style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map(({ index, start }) => (
          <div
            key={index}
            className="absolute flex gap-4 px-3 whitespace-pre"
            style={{ top: start, height: lineHeight, lineHeight: `${lineHeight}px` }}
          >
            <span
              aria-hidden="true"
              className="tabular shrink-0 text-right text-faint select-none"
              style={{ width: `${digits}ch` }}
            >
              {index + 1}
            </span>
            <span>{(lines[index] ?? "").slice(0, longest)}</span>
          </div>
        ))}
      </div>
    </div>
  );
};
