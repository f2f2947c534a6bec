import { isWaiting } from "../state/stream.ts";
import { isActive, type TaskState } from "../state/task.ts";

/** Finds Tasks that may have made the service crash. */

/** Whether work on this machine was under way. Waiting for a model does not count. */
const isBusy = (state: TaskState): boolean =>
  state.open.some(({ callID }) => !isWaiting(state, callID)) ||
  state.running.length > 0 ||
  state.landingStarted !== null;

/**
 * Whether the previous run died in the middle of a step, as seen by a run that is about to begin. `worker`: the process
 * in which it begins. A run of the same process did not die: it may end without an event while the database cannot be
 * reached.
 */
export const hasDied = (state: TaskState, worker?: string): boolean =>
  isBusy(state) && !state.stopped && state.worker !== worker;

/**
 * The service died twice in a row while the Task was in the same step: this Task, or another suspect one, may be the
 * cause. Such Tasks run one at a time, with no other Task at the same time.
 */
export const isSuspect = (state: TaskState): boolean => isActive(state) && hasDied(state) && state.crashes > 0;

/** The service died during a step of the Task while the Task ran alone: nothing else can have been the cause. */
export const isCrashLoop = (state: TaskState, worker: string): boolean => hasDied(state, worker) && state.alone;
