import { isWaiting } from "../state/stream.ts";
import { isActive, type TaskState } from "../state/task.ts";

/** Which Tasks may be what ends the service. */

/** Work on this machine was under way. Waiting for a model does not count. */
const isBusy = (state: TaskState): boolean =>
  state.open.some(({ callID }) => !isWaiting(state, callID)) ||
  state.running.length > 0 ||
  state.landingStarted !== null;

/**
 * As seen by a run that is about to begin: the one before died in the middle of a step. `worker`: the process that it
 * begins in, which has not died of its own runs: those may end without a word while the database is away.
 */
export const hasDied = (state: TaskState, worker?: string): boolean =>
  isBusy(state) && !state.stopped && state.worker !== worker;

/**
 * The service died twice in a row while the Task was in the same step: it, or one that was so, too, may be the cause.
 * Such Tasks run one at a time, and no other beside them.
 */
export const isSuspect = (state: TaskState): boolean => isActive(state) && hasDied(state) && state.crashes > 0;

/** The service died in its step while it ran alone: nothing else can have been the cause. */
export const isCrashLoop = (state: TaskState, worker: string): boolean => hasDied(state, worker) && state.alone;
