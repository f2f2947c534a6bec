import type { Virtualizer } from "@tanstack/react-virtual";
import { useEffect, useState } from "react";

/** How long an element may take, in milliseconds, to grow to the height of its rows. */
const patienceMs = 1500;

/** The virtualizer's `anchorTo`: "end" only while older rows may arrive, because it makes measuring rows slower. */
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
 * Keeps the rows on screen in place when older rows are inserted above. With `anchorTo: "end"` the virtualizer knows
 * their new offset; this scrolls the element there once it is high enough. `first`: the key of the first row.
 */
export const useAnchor = (rows: Virtualizer<HTMLDivElement, Element>, first: number | undefined): void => {
  useEffect(() => {
    if (first === undefined) return undefined;
    const until = performance.now() + patienceMs;
    let last = rows.scrollElement?.scrollTop;
    let frame = 0;
    const tell = () => {
      const { scrollElement: element, scrollOffset: offset } = rows;
      // Stop: the user has scrolled in the meantime.
      if (element === null || offset === null || element.scrollTop !== last) return;
      if (Math.abs(element.scrollTop - offset) > 1) element.scrollTop = offset;
      last = element.scrollTop;
      if (performance.now() < until) frame = requestAnimationFrame(tell);
    };
    frame = requestAnimationFrame(tell);
    return () => cancelAnimationFrame(frame);
  }, [first, rows]);
};
