import { openAsks } from "../../domain/state/stream.ts";
import { isOver, passTimeouts, remind, timeouts } from "../../domain/session/ask.ts";
import { dueNow } from "../../engine/due.ts";
import type { Run } from "../run.ts";

/**
 * Parks the Task until an answer comes: it gives up its claim and its place, and is due when the first ask times out or
 * somebody has to be reminded, which is then recorded here. Resolves to false when something was recorded or came in:
 * ask `next` again.
 */
export const waitForAnswer = async (run: Run, until: string): Promise<boolean> => {
  const state = run.state();
  const now = run.now();
  const decidedAt = state.version;
  const { askSeconds: seconds } = { ...run.limits, ...state.limits };
  const passes = passTimeouts(state, { now, seconds });
  if (passes.length > 0) {
    await run.record(passes, { decidedAt });
    return false;
  }
  if (openAsks(state).some((ask) => isOver(ask, now))) {
    await run.record(timeouts(state, now), { decidedAt });
    return false;
  }
  const reminder = remind(state, now);
  if (reminder.length > 0) {
    await run.record(reminder, { decidedAt });
    return false;
  }
  const due = { ...dueNow(now, state.priority), at: new Date(until) };
  return run.record([], { decidedAt, due });
};
