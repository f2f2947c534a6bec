import type { TaskStatus, TaskSummary } from "../../protocol/task/status.ts";
import type { QueuePlace, Store } from "../../store/store.ts";

/**
 * Places of queued Tasks in the queue. They are no part of a Task's fold, so whoever shows Tasks asks for all of them
 * at once.
 */

/** `wait`: what the Task itself is known to wait for. */
const queueOf = (wait: TaskStatus["queue"], place: QueuePlace | undefined, now: Date): TaskStatus["queue"] => {
  if (wait !== null) return { ...wait, position: (place?.ahead ?? 0) + 1 };
  if (place === undefined) return null;
  const later = place.due.at.getTime() > now.getTime();
  return {
    position: place.ahead + 1,
    notBefore: later ? place.due.at.toISOString() : null,
    reason: later ? "waits for its time" : "waits for a slot",
  };
};

export const withQueuePlaces = async <T extends Pick<TaskSummary, "taskID" | "phase" | "queue">>(
  store: Pick<Store, "places">,
  tasks: readonly T[],
  now: Date,
): Promise<T[]> => {
  const queued = tasks.flatMap(({ taskID, phase }) => (phase === "queued" ? [taskID] : []));
  const places = queued.length === 0 ? new Map<string, QueuePlace>() : await store.places(queued);
  return tasks.map((task) =>
    task.phase === "queued" ? { ...task, queue: queueOf(task.queue, places.get(task.taskID), now) } : task,
  );
};
