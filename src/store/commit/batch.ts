import type { DomainEvent, Position, Recorded, StreamID } from "../../domain/event.ts";
import { hash, nameOf, record, snapshotDue } from "../sql/row.ts";
import { evolveFold, type Fold } from "../sql/fold.ts";
import type { Head } from "../sql/schema.ts";
import type { Committed, Fence, Json, Once, StoredAnswer, Write } from "../store.ts";

/**
 * What a transaction does, decided without the database: members look through the changes of those before them at
 * what is stored, and a member that is refused or throws leaves nothing. So a batch is written in one go, and both
 * databases decide alike.
 */

export type Answer = { bodyHash: string; stored: StoredAnswer };

/** What is stored, or was changed by earlier members. */
export type Base = {
  position(): Position;
  head(stream: StreamID): Head | undefined;
  state(stream: StreamID): Fold | undefined;
  /** The stream that has a name (see fold.ts). */
  named(name: string): StreamID | undefined;
  answer(id: string): Answer | undefined;
};

export type Changes = {
  position: Position;
  heads: Map<StreamID, Head>;
  states: Map<StreamID, Fold>;
  names: Map<string, StreamID>;
  events: Recorded[];
  snapshots: Set<StreamID>;
  /** Streams whose title is new, or changed. */
  titles: Set<StreamID>;
  answers: Map<string, Answer>;
  /** Where Tasks' own ends are told to. */
  callbacks: Map<StreamID, string>;
  /** Taken before everything else of the batch. */
  erased: Set<StreamID>;
  /** Streams that were taken from their holder. */
  revoked: Set<StreamID>;
};

/** The world as one member sees it, and the clock of its transaction. */
export type Member<T> = (world: Base, changes: Changes, now: Date) => T;

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

const over = (base: Base, changes: Changes): Base => ({
  position: () => changes.position,
  head: (stream) => changes.heads.get(stream) ?? (changes.erased.has(stream) ? undefined : base.head(stream)),
  state: (stream) => changes.states.get(stream) ?? (changes.erased.has(stream) ? undefined : base.state(stream)),
  named(name) {
    const found = changes.names.get(name) ?? base.named(name);
    return found === undefined || changes.erased.has(found) ? undefined : found;
  },
  answer: (id) => changes.answers.get(id) ?? base.answer(id),
});

/** Runs one member on top of the batch; its changes join the batch only when it returns. */
export const runMember = <T>(member: Member<T>, base: Base, batch: Changes, now: Date): T => {
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

/** Throws away what a refused member had begun. */
const refuse = (changes: Changes, answer: Exclude<Committed, { ok: true }>): Committed => {
  Object.assign(changes, noChanges(changes.position - changes.events.length));
  return answer;
};

export const answerID = (scope: string, key: string): string => hash(scope, key);

export const commitMember =
  (write: Write): Member<Committed> =>
  (world, changes, now) => {
    const { once, fence } = write;
    const id = once && answerID(once.scope, once.key);
    const found = id === undefined ? undefined : world.answer(id);
    if (found !== undefined) return { ok: false, reason: "once", ...found };
    if (fence !== undefined && !holds(world.head(fence.stream), fence)) return { ok: false, reason: "fence" };

    for (const name of namesIn(write)) {
      const owner = world.named(name);
      if (owner !== undefined) return { ok: false, reason: "name", stream: owner };
    }
    for (const { stream, expected, events } of write.appends) {
      const version = world.head(stream)?.version ?? 0;
      if (expected !== "any" && expected !== version)
        return refuse(changes, { ok: false, reason: "version", stream, version });
      append(world, changes, stream, events, now);
    }
    for (const { stream, url } of write.callbacks ?? []) changes.callbacks.set(stream, url);
    for (const { stream, due } of write.due ?? []) {
      const head = world.head(stream);
      if (head === undefined) continue;
      changes.heads.set(stream, {
        ...head,
        due_at: due === null ? null : due.at.getTime(),
        rank: due === null ? head.rank : due.rank,
        due_seq: head.due_seq + 1,
      });
    }
    for (const stream of write.revoke ?? []) {
      const head = world.head(stream);
      if (head === undefined) continue;
      changes.heads.set(stream, freed(head, now));
      changes.revoked.add(stream);
    }
    if (once !== undefined && id !== undefined) changes.answers.set(id, answerOf(once, changes, world));
    return { ok: true, recorded: changes.events };
  };

/** The names that the write wants for its streams: a Mission's that begins. */
export const namesIn = (write: Write): string[] =>
  write.appends.flatMap(({ events }) =>
    events.flatMap((event) =>
      event.type === "mission.created" ? [nameOf(event.data.project, event.data.missionID)] : [],
    ),
  );

const holds = (head: Head | undefined, fence: Fence): boolean =>
  head !== undefined && head.holder !== null && head.epoch === fence.epoch;

const append = (world: Base, changes: Changes, stream: StreamID, events: readonly DomainEvent[], now: Date): void => {
  if (events.length === 0) return;
  const at = now.toISOString();
  const before = world.state(stream);
  let state = before;
  for (const event of events) {
    const place = { position: ++changes.position, stream, version: (state?.version ?? 0) + 1, at };
    const recorded = record(event, place);
    state = evolveFold(state, recorded);
    changes.events.push(recorded);
    if (event.type === "mission.created") changes.names.set(nameOf(event.data.project, event.data.missionID), stream);
  }
  if (state === undefined) return;
  changes.states.set(stream, state);
  changes.heads.set(stream, {
    ...(world.head(stream) ?? newHead(stream)),
    version: state.version,
    lifecycle: state.lifecycle,
  });
  if (snapshotDue(before?.version ?? 0, state)) changes.snapshots.add(stream);
  if (before?.title !== state.title) changes.titles.add(stream);
};

const newHead = (stream: StreamID): Head => ({
  stream,
  version: 0,
  epoch: 0,
  holder: null,
  lease_until: null,
  due_at: null,
  rank: 0,
  due_seq: 0,
  fruitless: 0,
  lifecycle: "active",
});

/** The stream without a holder, whoever held it fenced off; an active one must not be left without a due mark. */
export const freed = (head: Head, now: Date): Head => ({
  ...head,
  epoch: head.epoch + 1,
  holder: null,
  lease_until: null,
  ...(head.due_at === null && head.lifecycle === "active" ? { due_at: now.getTime(), due_seq: head.due_seq + 1 } : {}),
});

const answerOf = (once: Once, changes: Changes, world: Base): Answer => {
  const { status, body } = once.answer;
  const { positionAs } = once;
  if (positionAs === undefined) return { bodyHash: once.bodyHash, stored: once.answer };
  if (typeof body !== "object" || body === null || Array.isArray(body))
    throw new Error(`Expected an object as the body of an answer with positionAs, got ${JSON.stringify(body)}`);
  const position = changes.events.at(-1)?.position ?? world.position();
  const marked: Json = { ...body, [positionAs]: position };
  return { bodyHash: once.bodyHash, stored: { status, body: marked } };
};

export type Claimed = { epoch: number; version: number; dueSeq: number };

/** `leaseUntil`: null where claims do not expire. */
export const claimMember =
  (stream: StreamID, worker: string, leaseMs: number | null): Member<Claimed | undefined> =>
  (world, changes, now) => {
    const head = world.head(stream);
    if (head === undefined) return undefined;
    const lapsed = head.lease_until !== null && head.lease_until < now.getTime();
    if (head.holder !== null && !lapsed) return undefined;
    const epoch = head.epoch + 1;
    const lease_until = leaseMs === null ? null : now.getTime() + leaseMs;
    changes.heads.set(stream, { ...head, epoch, holder: worker, lease_until });
    return { epoch, version: head.version, dueSeq: head.due_seq };
  };

const backoffMs = (fruitless: number): number => Math.min(60_000, 1000 * 2 ** Math.max(0, fruitless - 1));

/**
 * The due mark that the claim found is used up; one that came since stays. A run that added nothing but its own
 * beginning was fruitless.
 */
export const releaseMember =
  (stream: StreamID, claimed: Claimed): Member<void> =>
  (world, changes, now) => {
    const head = world.head(stream);
    if (head === undefined || !holds(head, { stream, epoch: claimed.epoch })) return;
    const free: Head = { ...head, holder: null, lease_until: null };
    if (head.due_seq !== claimed.dueSeq && head.due_at !== null) {
      changes.heads.set(stream, { ...free, fruitless: 0 });
      return;
    }
    const barren = head.version <= claimed.version + 1;
    const fruitless = barren ? head.fruitless + 1 : 0;
    const due_at = head.lifecycle === "active" ? now.getTime() + backoffMs(fruitless) : null;
    changes.heads.set(stream, { ...free, due_at, due_seq: head.due_seq + 1, fruitless });
  };

export const eraseMember =
  (stream: StreamID, expected?: number): Member<boolean> =>
  (world, changes) => {
    if (expected !== undefined && world.head(stream)?.version !== expected) return false;
    changes.erased.add(stream);
    changes.revoked.add(stream);
    return true;
  };
