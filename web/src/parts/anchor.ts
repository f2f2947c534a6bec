import type { Virtualizer } from "@tanstack/react-virtual";
import { useLayoutEffect, useRef } from "react";

type Rows = Virtualizer<HTMLDivElement, Element>;

/** Older rows that come in front do not move what is being read. `first` is the key of the first row there is. */
export const useAnchor = (rows: Rows, first: number | string | undefined): void => {
  const seen = useRef<{ key: unknown; below: number } | undefined>(undefined);
  const before = useRef(first);
  useLayoutEffect(() => {
    const held = seen.current;
    if (before.current !== first && before.current !== undefined && held !== undefined) {
      const row = rows.measurementsCache.find(({ key }) => key === held.key);
      if (row !== undefined) rows.scrollToOffset(row.start - held.below);
    }
    before.current = first;
  }, [first, rows]);
  useLayoutEffect(() => {
    const offset = rows.scrollOffset ?? 0;
    const top = rows.getVirtualItems().find(({ end }) => end > offset);
    seen.current = top === undefined ? undefined : { key: top.key, below: top.start - offset };
  });
};
