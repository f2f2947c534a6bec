import { readFileSync } from "node:fs";
import { markOf, pids, statOf } from "./kill.ts";

/**
 * Tells whether processes make progress, by the processor time and the bytes that the kernel counts for them. Costs a
 * walk through /proc; without /proc nothing is known, and everything counts as progress.
 */

/** How often a watch looks at most, in milliseconds. The first look also comes after this time. */
const lookMs = 2500;

/** Work without progress for this many milliseconds counts as stalled: it waits for something outside. */
export const stalledMs = 5000;

const workOf = (pid: string): string => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const bytes = readFileSync(`/proc/${pid}/io`, "latin1");
    return `${pid} ${fields[11]} ${fields[12]} ${/rchar: (\d+)\nwchar: (\d+)/.exec(bytes)?.slice(1).join(" ") ?? ""}`;
  } catch {
    return pid;
  }
};

export type Watch = Disposable & {
  /** Milliseconds since progress was last seen. */
  idleMs: () => number;
  /** Tells the watch that the processes are held, which does not count as lack of progress. */
  hold: (held: boolean) => void;
};

/**
 * Watches the processes of a group, or those that carry a mark. `onIdle` is called, at most once, after no progress for
 * `limitMs`.
 */
export const watchProgress = (
  whose: { group(): number | undefined } | { mark: string },
  limitMs: number,
  onIdle: () => void,
): Watch => {
  let seen = "";
  let since = performance.now();
  let isHeld = false;
  const belongs = (pid: string): boolean =>
    "mark" in whose ? markOf(pid) === whose.mark : statOf(pid)?.pgid === whose.group();
  const look = () => {
    const now = pids().filter(belongs).map(workOf).join("\n");
    if (now !== seen || now === "" || isHeld) since = performance.now();
    seen = now;
    if (performance.now() - since < limitMs) return;
    clearInterval(timer);
    onIdle();
  };
  const timer = setInterval(look, Math.min(lookMs, limitMs / 2));
  timer.unref();
  return {
    idleMs: () => (isHeld ? 0 : performance.now() - since),
    hold(held) {
      isHeld = held;
      since = performance.now();
    },
    [Symbol.dispose]: () => clearInterval(timer),
  };
};
