import type { Priority } from "../protocol/task/status.ts";
import type { Due } from "../store/store.ts";

/** A due mark for now, ranked by priority. */

const minutes = 60_000;

const headStart: Record<Priority, number> = {
  critical: 24 * 60 * minutes,
  high: 10 * minutes,
  normal: 0,
  low: -10 * minutes,
};

/**
 * A due mark for now. The rank is the time it was set less the priority's head start: `critical` runs first, and a
 * `low` one that waited ten minutes longer than a `normal` one goes before it, so nothing starves.
 */
export const dueNow = (now: Date, priority: Priority): Due => ({ at: now, rank: now.getTime() - headStart[priority] });
