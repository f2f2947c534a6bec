import type { TaskStatus, TaskSummary } from "../../protocol/task/status.ts";
import type { QueuePlace, Store } from "../../store/store.ts";

/**
 * What Tasks wait for that is no part of their folds: places in the queue, of which whoever shows Tasks asks for all at
 * once, and space on the disk, for which all Tasks wait when there is none to put that on record.
 */

/** `wait`: what the Task itself is known to wait for. */
const queueOf = (
  wait: TaskStatus["queue"],
  place: QueuePlace | undefined,
  now: Date,
  shortage: string | undefined,
): TaskStatus["queue"] => {
  const position = (place?.ahead ?? 0) + 1;
  if (wait !== null) return { ...wait, position };
  if (shortage !== undefined) return { position, notBefore: null, reason: shortage };
  if (place === undefined) return null;
  const later = place.due.at.getTime() > now.getTime();
  return {
    position: place.ahead + 1,
    notBefore: later ? place.due.at.toISOString() : null,
    reason: later ? "waits for its time" : "waits for a slot",
  };
};

/** Phases in which a run is at work, so that it pauses when there is no space. */
const working: ReadonlySet<TaskSummary["phase"]> = new Set([
  "preparing",
  "planning",
  "working",
  "checking",
  "reviewing",
]);

/** `shortage`: why all Tasks pause now; undefined: they do not. */
export const withQueuePlaces = async <T extends Pick<TaskSummary, "taskID" | "phase" | "queue">>(
  store: Pick<Store, "places">,
  tasks: readonly T[],
  now: Date,
  shortage: string | undefined,
): Promise<T[]> => {
  const queued = tasks.flatMap(({ taskID, phase }) => (phase === "queued" ? [taskID] : []));
  const places = queued.length === 0 ? new Map<string, QueuePlace>() : await store.places(queued);
  return tasks.map((task) => {
    if (task.phase === "queued") return { ...task, queue: queueOf(task.queue, places.get(task.taskID), now, shortage) };
    return shortage !== undefined && working.has(task.phase)
      ? { ...task, phase: "queued", queue: { position: 1, notBefore: null, reason: shortage } }
      : task;
  });
};
