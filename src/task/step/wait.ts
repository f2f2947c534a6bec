import { openAsks } from "../../domain/state/stream.ts";
import { isOver, timeouts } from "../../domain/session/ask.ts";
import { dueNow } from "../../engine/due.ts";
import type { Run } from "../run.ts";

/**
 * Leaves the Task to whoever answers: no claim, no place, no memory, only a due mark for when the first ask is over.
 * Then the defaults are put on record here. False: something came in, ask `next` again.
 */
export const wait = async (run: Run, until: string): Promise<boolean> => {
  const state = run.state();
  const now = run.now();
  const decidedAt = state.version;
  if (openAsks(state).some((ask) => isOver(ask, now))) {
    await run.record(timeouts(state, now), { decidedAt });
    return false;
  }
  const due = { ...dueNow(now, state.priority), at: new Date(until) };
  return run.record([], { decidedAt, due });
};
