import { setTimeout as pause } from "node:timers/promises";
import { isActive, type TaskState } from "../../../domain/state/task.ts";
import { hourly } from "../../../async/hourly.ts";
import { messageOf, ServiceError } from "../../../error.ts";
import type { Log } from "../../../log.ts";
import type { Tasks, TasksDeps } from "../../tasks.ts";
import type { Remove } from "../remove.ts";

/** Deletes Tasks that ended more than `limits.keepDays` ago, one after the other. */

class Kept extends Error {}

export const createExpire =
  (stateOf: (taskID: string) => Promise<TaskState>, remove: Remove): Tasks["expire"] =>
  async (taskID, before) => {
    try {
      await remove(taskID, async () => {
        const state = await stateOf(taskID);
        if (isActive(state) || Date.parse(state.updatedAt) >= before.getTime()) throw new Kept();
        return state;
      });
      return true;
    } catch (error) {
      // Somebody else deleted it first.
      if (error instanceof Kept || (error instanceof ServiceError && error.code === "task_not_found")) return false;
      throw error;
    }
  };

const dayMs = 24 * 3_600_000;

/** Tasks per query. */
const pageSize = 100;

/**
 * After each deletion the sweep pauses for as long as the deletion took, and at least this long, to leave half of the
 * time to others.
 */
const leastPauseMs = 20;

/** Sweeps a minute after the start and then hourly. Does nothing when `keepDays` is 0. */
export const createExpirySweep = ({
  tasks,
  store,
  keepDays,
  log,
  now,
}: Pick<TasksDeps, "store" | "now"> & { tasks: Pick<Tasks, "expire">; keepDays: number; log: Log }) => {
  const sweep = async (signal: AbortSignal): Promise<void> => {
    const before = new Date(Math.max(0, now().getTime() - keepDays * dayMs));
    let gone = 0;
    for (let after: Awaited<ReturnType<typeof store.aged>>["next"]; ; ) {
      const page = await store.aged({ before, limit: pageSize, after }, signal);
      for (const { taskID } of page.tasks) {
        const begun = performance.now();
        try {
          if (await tasks.expire(taskID, before)) gone += 1;
        } catch (error) {
          log.warn({ taskID, error: messageOf(error) }, "a Task older than limits.keepDays could not be deleted");
        }
        await pause(Math.max(leastPauseMs, performance.now() - begun), undefined, { signal: signal });
      }
      after = page.next;
      if (after === undefined) break;
    }
    if (gone > 0) log.info({ tasks: gone, keepDays }, "deleted Tasks that ended more than limits.keepDays ago");
  };
  return hourly(sweep, (error) => log.warn({ error: messageOf(error) }, "old Tasks could not be listed"), keepDays > 0);
};
