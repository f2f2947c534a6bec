import type { Now } from "./field.ts";

/** Below this nobody is told that something is slow, in milliseconds. */
const patience = 10_000;

/** Whether what is done now takes three times as long as the same usually does. */
export const isSlow = ({ since, usualMs }: Pick<Now, "since" | "usualMs">, at: number): boolean =>
  usualMs !== undefined && at - Date.parse(since) >= Math.max(3 * usualMs, patience);
