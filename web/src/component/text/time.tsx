import { useEffect, useState, useSyncExternalStore } from "react";
import { ago, duration, moment, ticking } from "../../format.ts";

/** One clock for the whole page, stopped while no component uses it. */
let now = Date.now();
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;

const listen = (listener: () => void) => {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const each of listeners) each();
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
};
const still = () => () => {};

export const useNow = (ticks = true): number => {
  const ticked = useSyncExternalStore(ticks ? listen : still, () => now);
  const [mounted] = useState(() => Date.now());
  return Math.max(ticked, mounted);
};

/** How long something took or, without an end, has taken so far. */
export const Elapsed = ({ from, to }: { from: string | null; to: string | null }) => {
  const present = useNow(to === null && from !== null);
  if (from === null) return <span>not started</span>;
  const begun = Date.parse(from);
  return (
    <span className="tabular shrink-0 whitespace-nowrap">
      {to === null ? ticking(present - begun) : duration(Date.parse(to) - begun)}
    </span>
  );
};

export const Ago = ({ at }: { at: string | number }) => {
  const present = useNow();
  const then = typeof at === "number" ? at : Date.parse(at);
  return (
    <time dateTime={new Date(then).toISOString()} title={moment(then)}>
      {ago(present - then)}
    </time>
  );
};

/** The value as it was when it last stayed unchanged for `ms` milliseconds. */
export const useDebounced = <T,>(value: T, ms: number): T => {
  const [late, setLate] = useState(value);
  useEffect(() => {
    const due = setTimeout(() => setLate(value), ms);
    return () => clearTimeout(due);
  }, [value, ms]);
  return late;
};
