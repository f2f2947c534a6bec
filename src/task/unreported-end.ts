import type { Recorded } from "../domain/event.ts";
import type { Unheard } from "../domain/mission/budget.ts";
import { timeUntil } from "../domain/session/work-time.ts";
import { endedOf, type MissionState } from "../domain/state/mission.ts";
import { evolve } from "../domain/task/evolve.ts";
import type { TaskSummary } from "../protocol/task/status.ts";
import type { Store } from "../store/store.ts";

/**
 * Attempts of a Mission's Tasks that have ended without the Mission having heard of it: an aborted Mission hears of no
 * ends.
 */

type Read = Pick<Store, "state" | "read">;

/** How many attempts of the Task have ended. */
export const endedIn = ({ lifecycleStatus, attempt }: TaskSummary): number =>
  lifecycleStatus === "active" ? attempt - 1 : attempt;

export const unheardMinutes = async (
  store: Read,
  { tasks }: Pick<MissionState, "tasks">,
  rows: ReadonlyMap<string, TaskSummary>,
): Promise<Unheard> => {
  const minutes = tasks.map(async (task) => {
    const row = rows.get(task.taskID);
    const known = endedOf(task);
    if (row === undefined || endedIn(row) <= known) return [];
    const ends = (await store.read(task.taskID, { types: ["task.settled"] })).slice(known, endedIn(row));
    const worked = await Promise.all(ends.map((end) => minutesUntil(store, end)));
    return [[task.taskID, worked.reduce((all, one) => all + one, 0)] as const];
  });
  return new Map((await Promise.all(minutes)).flat());
};

/**
 * How many minutes the attempt that ended with this event worked. For an attempt before the newest one, which is rare,
 * the Task's log is folded anew.
 */
export const minutesUntil = async (store: Read, { stream, version, at }: Recorded): Promise<number> => {
  let state = await store.state(stream);
  if (state?.version !== version) {
    state = undefined;
    for (const event of await store.read(stream, { limit: version })) state = evolve(state, event);
  }
  return state === undefined ? 0 : timeUntil(state, at) / 60_000;
};
