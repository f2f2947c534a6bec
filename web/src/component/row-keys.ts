import { type RefObject, useRef } from "react";
import { useKeys } from "./keyboard.ts";

/** `j` and `k` move the focus along the links marked as rows; the browser itself handles Enter. */
export const useRows = (): RefObject<HTMLDivElement | null> => {
  const list = useRef<HTMLDivElement>(null);
  const move = (step: number) => {
    const rows = [...(list.current?.querySelectorAll<HTMLElement>("a[data-row]") ?? [])];
    const at = rows.indexOf(document.activeElement as HTMLElement);
    rows[Math.max(0, Math.min(rows.length - 1, at + step))]?.focus();
  };
  useKeys({ j: () => move(1), k: () => move(-1) });
  return list;
};
