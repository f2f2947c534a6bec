import type { DomainEvent, StreamID } from "../../domain/event.ts";
import type { TaskState } from "../../domain/state/task.ts";
import { dueNow } from "../../engine/due.ts";
import { ServiceError } from "../../error.ts";
import type { Due, Write } from "../../store/store.ts";
import type { Accepted, IdempotencyKey, TasksDeps } from "../tasks.ts";
import { missionWake } from "../wake-mission.ts";
import { idempotencyRecord, replay } from "./idempotency.ts";

/** The client gives the same text before it knows the Task. */
const directoryRequired = (): ServiceError =>
  new ServiceError(
    "directory_required",
    "Give the project directory: `?directory=/abs/path` or header `x-service-directory`.",
  );

/** Turns a caller's change of a Task into events and an answer, once for each idempotency key. */

export type Decision<T> = {
  status: 200 | 202;
  body: T;
  events: readonly DomainEvent[];
  due?: ReturnType<typeof dueNow> | null;
  revoke?: boolean;
  /** See `Write.urgent`. */
  urgent?: boolean;
  /** Appends to other logs, in the same commit. */
  also?: Write["appends"];
};

const mismatch = (state: TaskState, directory: string): ServiceError =>
  new ServiceError("directory_mismatch", `Expected the project of ${state.taskID}, got ${directory}.`);

const dueBy = (
  stream: StreamID,
  due: Due | null | undefined,
  woken: { stream: StreamID; due: Due }[],
): Pick<Write, "due"> => {
  const all = [...(due === undefined ? [] : [{ stream, due }]), ...woken];
  return all.length === 0 ? {} : { due: all };
};

export type Change = ReturnType<typeof createChange>;

export const createChange = (
  { store, engine, inspect, now }: Pick<TasksDeps, "store" | "engine" | "inspect" | "now">,
  stateOf: (taskID: string) => Promise<TaskState>,
) => {
  /** Finds a Task of another node by its path, because this machine need not have its directory. */
  const elsewhere = async (directory: string, taskID: string): Promise<TaskState | undefined> => {
    const placed = (await store.nodes?.elsewhere([taskID]))?.has(taskID);
    return placed === true ? byPath(directory, taskID) : undefined;
  };

  const byPath = async (directory: string, taskID: string): Promise<TaskState | undefined> => {
    const state = await store.state(taskID);
    return state?.directory === (directory.replace(/(?<!\/)\/+$/, "") || "/") ? state : undefined;
  };

  /**
   * Resolves to the Task if it belongs to the project of `directory`; rejects with `task_not_found` or
   * `directory_mismatch`.
   */
  const ownedTask = async (directory: string, taskID: string): Promise<TaskState> => {
    const found = await stateOf(taskID);
    // A Task of a repository by address has no directory of the caller's: its id is enough.
    if (found.repository !== null) return found;
    if (directory === "") throw directoryRequired();
    let place: { directory: string; project: string | undefined };
    let refusal = mismatch;
    try {
      place = await inspect(directory);
    } catch (error) {
      // `inspect` may reject what a Task left in its directory in place of a repository. That must not keep callers
      // from steering the Task: they still name the directory in which it began.
      if (!(error instanceof ServiceError)) throw error;
      // Several nodes have a directory of this path; the Task tells which one is meant.
      const ambiguous = error.code === "directory_ambiguous";
      const away = await (ambiguous ? byPath : elsewhere)(directory, taskID);
      if (away !== undefined) return away;
      if (!error.code.startsWith("repository_")) throw error;
      place = { directory, project: undefined };
      refusal = () => error;
    }
    const state = await stateOf(taskID);
    if (state.project === place.project || state.directory === place.directory) return state;
    const away = await elsewhere(directory, taskID);
    if (away !== undefined) return away;
    throw refusal(state, directory);
  };

  /** Commits what `decide` returns for the newest state. When another commit came first, it folds and decides again. */
  const change = async <T>(
    taskID: string,
    once: IdempotencyKey | undefined,
    decide: (state: TaskState) => Decision<T> | Promise<Decision<T>>,
  ): Promise<Accepted<T>> => {
    for (;;) {
      const state = await stateOf(taskID);
      const decision = await decide(state);
      const { status, body, events, due, revoke, urgent = false, also = [] } = decision;
      if (events.length === 0 && once === undefined)
        return { status, body: { ...body, eventID: state.position }, replayed: false };
      const write: Write = {
        // This Task's append comes last, because the answer has the position of the newest event.
        appends: [...also, { stream: taskID, expected: state.version, events }],
        ...dueBy(taskID, due, missionWake(state, events, now())),
        ...(revoke ? { revoke: [taskID] } : {}),
        urgent,
        ...(once === undefined
          ? {}
          : { once: idempotencyRecord(once, status, { ...body, eventID: state.position }, events.length > 0) }),
      };
      const done = await store.commit(write);
      if (done.ok) {
        const eventID = done.recorded.at(-1)?.position ?? state.position;
        if (revoke) void engine.interrupt(taskID);
        if (due) engine.nudge(taskID, due);
        for (const woken of missionWake(state, events, now())) engine.nudge(woken.stream, woken.due);
        return { status, body: { ...body, eventID }, replayed: false };
      }
      if (done.reason === "once") return replay(done.bodyHash, done.stored, once);
    }
  };

  return { own: ownedTask, change };
};
