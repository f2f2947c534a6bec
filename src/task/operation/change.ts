import type { DomainEvent, StreamID } from "../../domain/event.ts";
import type { TaskState } from "../../domain/state/task.ts";
import { dueNow, type Engine } from "../../engine/engine.ts";
import { ServiceError } from "../../error.ts";
import type { Due, Once, Store, Write } from "../../store/store.ts";
import type { Workspaces } from "../../workspace/workspace.ts";

/** How a caller's wish about a Task becomes facts and an answer, once for each idempotency key. */

/** The idempotency key of a request: the answer is stored in the commit of the effect. */
export type OnceKey = { scope: string; key: string; bodyHash: string };

/** `replayed`: the key stood already, this is its first answer. */
export type Accepted<T> = { status: 200 | 202; body: T; replayed: boolean };

export type Decision<T> = {
  status: 200 | 202;
  body: T;
  events: readonly DomainEvent[];
  due?: ReturnType<typeof dueNow> | null;
  revoke?: boolean;
};

/** The key with its answer; `positionAs` lets the store name the event that does not stand yet. */
export const onceOf = (once: OnceKey, status: number, body: object, positioned: boolean): Once => ({
  ...once,
  answer: { status, body: { ...body } },
  ...(positioned ? { positionAs: "eventID" } : {}),
});

export const replay = <T>(
  bodyHash: string,
  stored: { status: number; body: unknown },
  once: OnceKey | undefined,
): Accepted<T> => {
  if (bodyHash !== once?.bodyHash)
    throw new ServiceError(
      "idempotency_key_reused",
      "Expected the same body as the first request with this Idempotency-Key, got another.",
    );
  return { status: stored.status === 200 ? 200 : 202, body: stored.body as T, replayed: true };
};

/** A Task that ends wakes its Mission: due in the same commit, so that no crash comes in between. */
export const wokenBy = (
  { mission }: TaskState,
  events: readonly DomainEvent[],
  now: Date,
): { stream: StreamID; due: Due }[] =>
  mission !== null && events.some(({ type }) => type === "task.settled")
    ? [{ stream: mission.sessionID, due: dueNow(now, "normal") }]
    : [];

const dueBy = (
  stream: StreamID,
  due: Due | null | undefined,
  woken: { stream: StreamID; due: Due }[],
): Pick<Write, "due"> => {
  const all = [...(due === undefined ? [] : [{ stream, due }]), ...woken];
  return all.length === 0 ? {} : { due: all };
};

export type Accept = ReturnType<typeof createAccept>;

export const createAccept = (
  { store, engine, workspaces, now }: { store: Store; engine: Engine; workspaces: Workspaces; now: () => Date },
  stateOf: (taskID: string) => Promise<TaskState>,
) => {
  /** The Task, if it belongs to the caller's project. */
  const own = async (directory: string, taskID: string): Promise<TaskState> => {
    const { project } = await workspaces.inspect(directory);
    const state = await stateOf(taskID);
    if (state.project === project) return state;
    throw new ServiceError(
      "directory_mismatch",
      `Expected the project of ${taskID} (${state.directory}), got ${directory}.`,
    );
  };

  /** Commits what `decide` makes of the newest state, again when somebody else was quicker. */
  const change = async <T>(
    taskID: string,
    once: OnceKey | undefined,
    decide: (state: TaskState) => Decision<T> | Promise<Decision<T>>,
  ): Promise<Accepted<T>> => {
    for (;;) {
      const state = await stateOf(taskID);
      const decision = await decide(state);
      const { status, body, events, due, revoke } = decision;
      if (events.length === 0 && once === undefined)
        return { status, body: { ...body, eventID: state.position }, replayed: false };
      const write: Write = {
        appends: [{ stream: taskID, expected: state.version, events }],
        ...dueBy(taskID, due, wokenBy(state, events, now())),
        ...(revoke ? { revoke: [taskID] } : {}),
        ...(once === undefined
          ? {}
          : { once: onceOf(once, status, { ...body, eventID: state.position }, events.length > 0) }),
      };
      const done = await store.commit(write);
      if (done.ok) {
        const eventID = done.recorded.at(-1)?.position ?? state.position;
        if (revoke) void engine.interrupt(taskID);
        if (due) engine.nudge(taskID, due);
        for (const woken of wokenBy(state, events, now())) engine.nudge(woken.stream, woken.due);
        return { status, body: { ...body, eventID }, replayed: false };
      }
      if (done.reason === "once") return replay(done.bodyHash, done.stored, once);
    }
  };

  return { own, change };
};
