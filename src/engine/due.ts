import type { Priority } from "../protocol/task/status.ts";
import type { Due } from "../store/store.ts";

const minutes = 60_000;

const headStart: Record<Priority, number> = {
  critical: 24 * 60 * minutes,
  high: 10 * minutes,
  normal: 0,
  low: -10 * minutes,
};

/**
 * A due time of now, ranked by priority. The rank is the current time minus the priority's head start: `critical` runs
 * first, and a `low` stream that has waited ten minutes longer than a `normal` one runs before it, so nothing starves.
 */
export const dueNow = (now: Date, priority: Priority): Due => ({ at: now, rank: now.getTime() - headStart[priority] });

/** The rank of a run that only ends its stream: before all others. */
const endingRank = 0;

/** A due time of now for a run that only ends its stream. */
export const dueToEnd = (now: Date): Due => ({ at: now, rank: endingRank });

export const isEnding = ({ rank }: Due): boolean => rank === endingRank;
