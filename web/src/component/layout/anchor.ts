import type { Virtualizer } from "@tanstack/react-virtual";
import { useEffect, useState } from "react";

/** How long an element may take to grow to what its rows need. */
const patienceMs = 1500;

/** For `anchorTo`: only while older rows may come, because each row that is measured then costs more. */
export const useAnchorTo = (loading: boolean): "start" | "end" => {
  const [held, setHeld] = useState(loading);
  useEffect(() => {
    if (loading) return undefined;
    const due = setTimeout(() => setHeld(false), patienceMs);
    return () => clearTimeout(due);
  }, [loading]);
  return held ? "end" : "start";
};

/**
 * Older rows that come in front do not move what is read: with `anchorTo: "end"` the virtualizer knows where that is by
 * then, and the element is told once it is high enough to be scrolled there. `first` is the key of the first row.
 */
export const useAnchor = (rows: Virtualizer<HTMLDivElement, Element>, first: number | undefined): void => {
  useEffect(() => {
    if (first === undefined) return undefined;
    const until = performance.now() + patienceMs;
    let last = rows.scrollElement?.scrollTop;
    let frame = 0;
    const tell = () => {
      const { scrollElement: element, scrollOffset: offset } = rows;
      // Somebody else has scrolled it.
      if (element === null || offset === null || element.scrollTop !== last) return;
      if (Math.abs(element.scrollTop - offset) > 1) element.scrollTop = offset;
      last = element.scrollTop;
      if (performance.now() < until) frame = requestAnimationFrame(tell);
    };
    frame = requestAnimationFrame(tell);
    return () => cancelAnimationFrame(frame);
  }, [first, rows]);
};
