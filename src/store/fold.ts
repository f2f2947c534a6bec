import { createHash } from "node:crypto";
import type { DomainEvent, Recorded, StreamID } from "../domain/event.ts";
import { summarise } from "../domain/summary.ts";
import { evolve, taskRevision } from "../domain/evolve.ts";
import type { TaskState } from "../domain/task.ts";
import type { Tables } from "./schema.ts";
import type { Json } from "./store.ts";

/** What is stored of a fold, and how it is read again. */

/** A snapshot is written whenever a stream passes a multiple of this, and at its end. */
const snapshotEvery = 64;

export const snapshotDue = (before: number, state: TaskState): boolean =>
  state.lifecycle !== "active" || Math.floor(state.version / snapshotEvery) > Math.floor(before / snapshotEvery);

export const eventRow = (event: Recorded): Tables["events"] => ({
  position: event.position,
  stream: event.stream,
  version: event.version,
  type: event.type,
  at: event.at,
  data: JSON.stringify(event.data),
});

export const eventOf = (row: Tables["events"]): Recorded =>
  ({
    type: row.type,
    data: JSON.parse(row.data),
    position: row.position,
    stream: row.stream,
    version: row.version,
    at: row.at,
  }) as Recorded;

export const record = (event: DomainEvent, place: Omit<Recorded, "type" | "data">): Recorded => ({
  ...event,
  ...place,
});

/** The fold in a snapshot, if it has the present meaning; what follows `version` is still to be folded in. */
export const fromSnapshot = (snapshot: Tables["snapshots"] | undefined): TaskState | undefined =>
  snapshot?.revision === taskRevision ? (JSON.parse(snapshot.state) as TaskState) : undefined;

export const foldRows = (from: TaskState | undefined, rows: readonly Tables["events"][]): TaskState | undefined =>
  rows.reduce<TaskState | undefined>((state, row) => evolve(state, eventOf(row)), from);

export const snapshotRow = (state: TaskState): Tables["snapshots"] => ({
  stream: state.taskID,
  version: state.version,
  revision: taskRevision,
  state: JSON.stringify(state),
});

export const taskRow = (state: TaskState): Tables["tasks"] => {
  const summary = summarise(state);
  return {
    stream: state.taskID,
    project: hash(state.project),
    updated: summary.updated,
    lifecycle: state.lifecycle,
    pillar: state.productPillar,
    squad: state.squad.id,
    priority: state.priority,
    archived: state.archived ? 1 : 0,
    revision: taskRevision,
    summary: JSON.stringify(summary),
  };
};

export const searchText = (state: TaskState): string => {
  const request = typeof state.request === "string" ? state.request : state.request.head;
  return plain(`${state.title}\n${state.taskID}\n${request}`).toLowerCase();
};

export const metadataRows = (state: TaskState): Tables["metadata"][] =>
  Object.entries(state.metadata).map(([key, value]) => ({
    stream: state.taskID,
    key: plain(key),
    value: plain(textOf(value)),
  }));

/** Strings as they are, everything else as its JSON. */
const textOf = (value: Json): string => (typeof value === "string" ? value : JSON.stringify(value));

/** A text that both databases can hold in a column of its own: PostgreSQL takes neither NUL nor lone surrogates. */
export const plain = (text: string): string => text.toWellFormed().replaceAll("\0", "\uFFFD");

export const hash = (...parts: readonly string[]): string =>
  createHash("sha256").update(JSON.stringify(parts)).digest("hex");

export type Cache = {
  get(stream: StreamID): TaskState | undefined;
  set(state: TaskState): void;
  delete(stream: StreamID): void;
};

/** The newest folds that were used last. */
export const createCache = (limit = 1000): Cache => {
  const states = new Map<StreamID, TaskState>();
  return {
    get(stream) {
      const state = states.get(stream);
      if (state === undefined) return undefined;
      states.delete(stream);
      states.set(stream, state);
      return state;
    },
    set(state) {
      states.delete(state.taskID);
      states.set(state.taskID, state);
      if (states.size <= limit) return;
      const [oldest] = states.keys();
      if (oldest !== undefined) states.delete(oldest);
    },
    delete(stream) {
      states.delete(stream);
    },
  };
};
