import { waiting } from "../../domain/session/now.ts";
import type { TaskStatus, TaskSummary } from "../../protocol/task/status.ts";
import { aheadInDirectory } from "../directory-queue.ts";
import { lastSeen, type Nodes, type Placed, reasonNotTaken } from "../../store/node.ts";
import { countRunning } from "../../store/running.ts";
import type { QueuePlace, Store } from "../../store/store.ts";

/**
 * What Tasks wait for that is not in their folds: their places in the queue, which are queried for all listed Tasks at
 * once, and space on the disk, which cannot be recorded while the disk is full.
 */

const slot = "waits for a slot";

/** `wait`: what the Task waits for according to its fold. `ahead`: how many Tasks run before it in its directory. */
const queueOf = (
  wait: TaskStatus["queue"],
  place: QueuePlace | undefined,
  now: Date,
  shortage: string | undefined,
  ahead: number | undefined,
): TaskStatus["queue"] => {
  const position = (place?.ahead ?? 0) + 1;
  if (wait !== null) return { ...wait, position };
  if (shortage !== undefined) return { position, notBefore: null, reason: shortage };
  if (ahead !== undefined)
    return { position: ahead + 1, notBefore: null, reason: "waits for another Task in the same directory" };
  if (place === undefined) return null;
  const later = place.due.at.getTime() > now.getTime();
  return {
    position: place.ahead + 1,
    notBefore: later ? place.due.at.toISOString() : null,
    reason: later ? "waits for its start time" : slot,
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

/** `shortage`: why all Tasks are paused now; undefined: they are not. */
export const withQueuePlaces = async <T extends Pick<TaskSummary, "taskID" | "phase" | "queue" | "now">>(
  store: Pick<Store, "places" | "nodes" | "bounds" | "running">,
  tasks: readonly T[],
  now: Date,
  shortage: string | undefined,
): Promise<T[]> => {
  const queued = tasks.flatMap(({ taskID, phase }) => (phase === "queued" ? [taskID] : []));
  const places = queued.length === 0 ? new Map<string, QueuePlace>() : await store.places(queued);
  const active = tasks.flatMap(({ taskID, phase }) => (phase === "queued" || working.has(phase) ? [taskID] : []));
  const elsewhere = await store.nodes?.elsewhere(active);
  const waits = active.filter((taskID) => queued.includes(taskID) || elsewhere?.get(taskID)?.isUp === false);
  const barred = await bounded(store, queued);
  const takers = store.nodes === undefined || waits.length === 0 ? alone : await takersOf(store.nodes, waits);
  return tasks.map((task) => {
    const { taskID, phase, queue } = task;
    const placed = elsewhere?.get(taskID);
    if (placed?.isUp === false) {
      const remedy = placed.movable ? "another one takes it over" : "start it again";
      const away = `waits for the node ${placed.node}, which has its files and ${lastSeen(placed.seenAt)}: ${remedy}`;
      const reason = (placed.movable ? takers.unable(taskID, placed) : undefined) ?? away;
      const found = { position: 1, notBefore: null, reason };
      return { ...task, phase: "queued", queue: found, now: waitingFor(task.now, found, true) };
    }
    // Only that node knows how full its disk is, and who works in a directory.
    if (placed !== undefined && phase !== "queued") return task;
    if (phase === "queued") {
      const isHere = placed === undefined && !takers.mayTake(taskID);
      const known = isHere
        ? queueOf(queue, places.get(taskID), now, shortage, aheadInDirectory(taskID))
        : queueOf(queue, places.get(taskID), now, undefined, undefined);
      const reason = known?.reason === slot ? (takers.unable(taskID, placed) ?? barred(taskID)) : undefined;
      const found = known === null || reason === undefined ? known : { ...known, reason };
      return { ...task, queue: found, now: found === queue ? task.now : waitingFor(task.now, found) };
    }
    if (shortage === undefined || !working.has(phase)) return task;
    const found = { position: 1, notBefore: null, reason: shortage };
    return { ...task, phase: "queued", queue: found, now: waitingFor(task.now, found) };
  });
};

/** Which bound on running Tasks keeps a waiting Task from a slot. */
const bounded = async (
  { bounds, running: runningOf }: Pick<Store, "bounds" | "running">,
  queued: readonly string[],
): Promise<(taskID: string) => string | undefined> => {
  if (bounds === undefined || queued.length === 0) return () => undefined;
  const { running, projects } = await runningOf(queued);
  const room = countRunning(bounds, running.values());
  return (taskID) => {
    const lacks = room.lacks(projects.get(taskID) ?? "");
    if (lacks === undefined) return undefined;
    const [most, of] = lacks === "all" ? [bounds.all, ""] : [bounds.project, " of its project"];
    return `waits for a slot: at most ${most} ${most === 1 ? "Task" : "Tasks"}${of} may run at the same time`;
  };
};

type Takers = {
  /** Whether the Task is bound to no node yet, so that any node that meets its terms may take it. */
  mayTake: (taskID: string) => boolean;
  /** Why no node begins a Task that waits for a slot; undefined: a node will when it has room. */
  unable: (taskID: string, placed: Placed | undefined) => string | undefined;
};

/** There are no other nodes. */
const alone: Takers = { mayTake: () => false, unable: () => undefined };

const takersOf = async (nodes: Nodes, queued: readonly string[]): Promise<Takers> => {
  const [takers, unplaced] = await Promise.all([nodes.takers(), nodes.unplaced(queued)]);
  const unable: Takers["unable"] = (taskID, placed) => {
    const terms = unplaced.get(taskID);
    if (terms !== undefined) return reasonNotTaken(terms, takers);
    if (placed?.movable === true && !placed.isUp) return undefined;
    const home = placed?.node ?? nodes.name;
    if (takers.has(home)) return undefined;
    return `waits for the node ${home}, which has its files and starts nothing: it is draining, or has SERVICE_ROLE=api`;
  };
  return { mayTake: (taskID) => unplaced.has(taskID), unable };
};

/**
 * `now`, with the reason for which the Task waits, when the service knows more than its log. That a Task waits for a
 * slot is in the log already.
 */
const waitingFor = (now: TaskSummary["now"], queue: TaskSummary["queue"], away = false): TaskSummary["now"] =>
  away && now != null && queue !== null
    ? { ...now, kind: "queue", text: waiting(queue.reason) }
    : now?.kind !== "queue" || queue === null || queue.reason === slot
      ? now
      : { ...now, text: waiting(queue.reason) };
