/** A command's time limit, which stands still while the command is held. */
export interface Timeout {
  hold(held: boolean): void;
  /** Milliseconds for which the command was held. */
  heldMs(): number;
  clear(): void;
}

export const startTimeout = (ms: number, over: () => void): Timeout => {
  let left = ms;
  let since = performance.now();
  let timer: NodeJS.Timeout | undefined = setTimeout(over, left);
  let heldSince: number | undefined;
  let held = 0;
  let cleared = false;
  return {
    hold(now) {
      if (cleared || now === (heldSince !== undefined)) return;
      if (heldSince === undefined) {
        clearTimeout(timer);
        heldSince = performance.now();
        left -= heldSince - since;
        return;
      }
      since = performance.now();
      held += since - heldSince;
      heldSince = undefined;
      timer = setTimeout(over, Math.max(0, left));
    },
    heldMs: () => held + (heldSince === undefined ? 0 : performance.now() - heldSince),
    clear() {
      cleared = true;
      clearTimeout(timer);
      if (heldSince === undefined) return;
      held += performance.now() - heldSince;
      heldSince = undefined;
    },
  };
};
