import { budgetWarnings, timeLeft } from "../domain/session/budget.ts";
import { messageOf } from "../error.ts";
import type { SessionContext } from "./session.ts";

/** The longest delay that `setTimeout` accepts, in milliseconds. */
const longest = 2 ** 31 - 1;
const tryAgainMs = 1_000;

/**
 * Lets an agent work until the Task's time (`maxMinutes`) is used up. Work still under way is then aborted, and `next`
 * ends the Task.
 */
export const withinTime = async (turn: SessionContext, work: (signal: AbortSignal) => Promise<void>): Promise<void> => {
  await using time = watchTime(turn);
  try {
    await work(time.signal);
  } catch (error) {
    turn.signal.throwIfAborted();
    if (!time.signal.aborted) throw error;
  }
};

/**
 * Watches `maxMinutes` while a model or a command is busy: records a warning in time, and aborts its signal (which also
 * follows the run's signal) when the time is used up. It reads the Task again each time, so a budget that was raised
 * meanwhile counts.
 */
const watchTime = (turn: SessionContext): AsyncDisposable & { signal: AbortSignal } => {
  const over = new AbortController();
  let stopped = false;
  let timer: NodeJS.Timeout | undefined;
  let looking: Promise<void> = Promise.resolve();
  const left = () => timeLeft(turn.state(), turn.limits, turn.now());

  const arm = (ms: number): void => {
    if (stopped) return;
    timer = setTimeout(
      () => {
        looking = look().catch((error: unknown) => {
          // Either the claim is lost, which the work itself will notice, or the store cannot write at the moment.
          turn.log.debug({ error: messageOf(error) }, "the time was not looked at");
          arm(tryAgainMs);
        });
      },
      Math.min(Math.max(Math.ceil(ms), 10), longest),
    );
  };

  const look = async (): Promise<void> => {
    // Once a pause is recorded, it does not count towards the Task's time.
    await turn.space();
    // An empty commit folds in what others changed, such as the budget.
    await turn.record([]);
    const warnings = budgetWarnings(turn.state(), turn.limits, turn.now());
    if (warnings.length > 0) await turn.record(warnings);
    const { warning, end } = left();
    if (end <= 0) over.abort();
    else arm(Math.min(warning, end));
  };

  // The loop records a warning that is already due before its next request, so in that case only the end needs a timer.
  const { warning, end } = left();
  arm(warning <= 0 ? end : Math.min(warning, end));
  return {
    signal: AbortSignal.any([turn.signal, over.signal]),
    async [Symbol.asyncDispose]() {
      stopped = true;
      clearTimeout(timer);
      await looking;
    },
  };
};
