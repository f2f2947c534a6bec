import type { Now } from "./field.ts";

/** Below this nobody is told that something is slow, in milliseconds. */
const patience = 10_000;

/**
 * Whether what is done now takes three times as long as the same usually does. A model that is writing is not: how long
 * that takes is how much it writes.
 */
export const isSlow = ({ kind, since, soFar, usualMs }: Omit<Now, "text">, at: number): boolean => {
  const writes = soFar !== undefined && (kind === "model" || kind === "review");
  return usualMs !== undefined && !writes && at - Date.parse(since) >= Math.max(3 * usualMs, patience);
};
