import type { Position, Recorded, StreamID } from "../../domain/event.ts";
import type { Fold } from "../sql/fold.ts";
import type { Head } from "../sql/schema.ts";
import type { StoredAnswer } from "../store.ts";

/**
 * A transaction, decided in memory without the database. Each member sees what is stored overlaid with the changes of
 * the members before it; a member that is refused or throws leaves no changes. A batch is therefore written in one go,
 * and both databases reach the same decisions.
 */

export type Answer = { bodyHash: string; stored: StoredAnswer };

/** What is stored, including the changes of earlier members. */
export type StoredView = {
  position(): Position;
  head(stream: StreamID): Head | undefined;
  state(stream: StreamID): Fold | undefined;
  /** The stream with this name (see sql/row.ts). */
  named(name: string): StreamID | undefined;
  answer(id: string): Answer | undefined;
  /** The Tasks that run, with their projects. Only claims ask for it, and only where the store has bounds. */
  running(): ReadonlyMap<StreamID, string>;
  project(stream: StreamID): string | undefined;
};

export type Changes = {
  position: Position;
  heads: Map<StreamID, Head>;
  states: Map<StreamID, Fold>;
  names: Map<string, StreamID>;
  events: Recorded[];
  snapshots: Set<StreamID>;
  /** Streams whose title is new or changed. */
  titles: Set<StreamID>;
  answers: Map<string, Answer>;
  /** The callback URLs of new Tasks. */
  callbacks: Map<StreamID, string>;
  /** Streams that are erased before anything else of the batch is written. */
  erased: Set<StreamID>;
  /** Streams whose claim was revoked. */
  revoked: Set<StreamID>;
};

/** One write of a batch: reads `world`, records its effects in `changes`, and returns its result. */
export type BatchMember<T> = (world: StoredView, changes: Changes, now: Date) => T;

export const noChanges = (position: Position): Changes => ({
  position,
  heads: new Map(),
  states: new Map(),
  names: new Map(),
  events: [],
  snapshots: new Set(),
  titles: new Set(),
  answers: new Map(),
  callbacks: new Map(),
  erased: new Set(),
  revoked: new Set(),
});

export const isEmpty = (changes: Changes): boolean =>
  changes.heads.size + changes.answers.size + changes.erased.size === 0;

const over = (base: StoredView, changes: Changes): StoredView => ({
  position: () => changes.position,
  head: (stream) => changes.heads.get(stream) ?? (changes.erased.has(stream) ? undefined : base.head(stream)),
  state: (stream) => changes.states.get(stream) ?? (changes.erased.has(stream) ? undefined : base.state(stream)),
  named(name) {
    const found = changes.names.get(name) ?? base.named(name);
    return found === undefined || changes.erased.has(found) ? undefined : found;
  },
  answer: (id) => changes.answers.get(id) ?? base.answer(id),
  running() {
    const running = new Map(base.running());
    for (const { stream, holder } of changes.heads.values()) {
      const project = base.project(stream);
      if (holder === null) running.delete(stream);
      else if (project !== undefined) running.set(stream, project);
    }
    for (const stream of changes.erased) running.delete(stream);
    return running;
  },
  project: (stream) => base.project(stream),
});

/** Runs one member on top of the batch. Its changes join the batch only if it returns. */
export const runMember = <T>(member: BatchMember<T>, base: StoredView, batch: Changes, now: Date): T => {
  const world = over(base, batch);
  const own = noChanges(batch.position);
  const value = member(over(world, own), own, now);
  batch.position = own.position;
  for (const stream of own.erased) {
    batch.erased.add(stream);
    batch.heads.delete(stream);
    batch.states.delete(stream);
    batch.snapshots.delete(stream);
    batch.titles.delete(stream);
    batch.callbacks.delete(stream);
    batch.events = batch.events.filter((event) => event.stream !== stream);
    for (const [name, owner] of batch.names) if (owner === stream) batch.names.delete(name);
  }
  for (const [stream, head] of own.heads) batch.heads.set(stream, head);
  for (const [stream, state] of own.states) batch.states.set(stream, state);
  for (const [name, stream] of own.names) batch.names.set(name, stream);
  for (const [id, answer] of own.answers) batch.answers.set(id, answer);
  for (const [stream, url] of own.callbacks) batch.callbacks.set(stream, url);
  for (const stream of own.snapshots) batch.snapshots.add(stream);
  for (const stream of own.titles) batch.titles.add(stream);
  for (const stream of own.revoked) batch.revoked.add(stream);
  batch.events.push(...own.events);
  return value;
};

/**
 * Releases the stream and raises its epoch, which fences off the old holder. An active stream without a due time
 * becomes due now, since nothing else would run it again.
 */
export const releasedHead = (head: Head, now: Date): Head => ({
  ...head,
  epoch: head.epoch + 1,
  holder: null,
  lease_until: null,
  ...(head.due_at === null && head.lifecycle === "active" ? { due_at: now.getTime(), due_seq: head.due_seq + 1 } : {}),
});
