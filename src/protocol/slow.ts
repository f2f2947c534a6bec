import type { Now } from "./field.ts";

/** Nothing counts as slow before this many milliseconds. */
const patience = 10_000;

/**
 * Whether the present step has taken three times as long as it usually does. A model that is writing is never slow: its
 * time depends on how much it writes.
 */
export const isSlow = ({ kind, since, soFar, usualMs }: Omit<Now, "text">, at: number): boolean => {
  const writes = soFar !== undefined && (kind === "model" || kind === "review");
  return usualMs !== undefined && !writes && at - Date.parse(since) >= Math.max(3 * usualMs, patience);
};
