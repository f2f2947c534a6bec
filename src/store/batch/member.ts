import type { DomainEvent, StreamID } from "../../domain/event.ts";
import { projectOf } from "../../domain/state/project.ts";
import { evolveFold } from "../sql/fold.ts";
import { nameOf, record, snapshotDue, answerID } from "../sql/row.ts";
import type { Head } from "../sql/schema.ts";
import { countRunning, type RunningBounds } from "../running.ts";
import type { Committed, Due, Fence, Json, IdempotencyRecord, Write } from "../store.ts";
import { type Answer, type StoredView, type Changes, releasedHead, type BatchMember, noChanges } from "./batch.ts";

/** The four kinds of batch members: commit, claim, release, erase. */

/** Discards the changes that a refused member had made. */
const refuse = (changes: Changes, answer: Exclude<Committed, { ok: true }>): Committed => {
  Object.assign(changes, noChanges(changes.position - changes.events.length));
  return answer;
};

export const commitMember =
  (write: Write): BatchMember<Committed> =>
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
      const { due_at, rank } = head;
      changes.heads.set(stream, { ...head, ...timeOf(due, { due_at, rank }), due_seq: head.due_seq + 1 });
    }
    for (const stream of write.revoke ?? []) {
      const head = world.head(stream);
      if (head === undefined) continue;
      changes.heads.set(stream, releasedHead(head, now));
      changes.revoked.add(stream);
    }
    if (once !== undefined && id !== undefined) changes.answers.set(id, answerOf(once, changes, world));
    return { ok: true, recorded: changes.events };
  };

type DueTime = Pick<Head, "due_at" | "rank">;
const timeOf = (due: Due | null | "as-it-is", before: DueTime): DueTime => {
  if (due === "as-it-is") return before;
  return due === null ? { ...before, due_at: null } : { due_at: due.at.getTime(), rank: due.rank };
};

/** The unique names that the write needs: those of new Missions. */
export const namesIn = (write: Write): string[] =>
  write.appends.flatMap(({ events }) =>
    events.flatMap((event) =>
      event.type === "mission.created" ? [nameOf(projectOf(event.data), event.data.missionID)] : [],
    ),
  );

const holds = (head: Head | undefined, fence: Fence): boolean =>
  head !== undefined && head.holder !== null && head.epoch === fence.epoch;

const append = (
  world: StoredView,
  changes: Changes,
  stream: StreamID,
  events: readonly DomainEvent[],
  now: Date,
): void => {
  if (events.length === 0) return;
  const at = now.toISOString();
  const before = world.state(stream);
  let state = before;
  for (const event of events) {
    const place = { position: ++changes.position, stream, version: (state?.version ?? 0) + 1, at };
    const recorded = record(event, place);
    state = evolveFold(state, recorded);
    changes.events.push(recorded);
    if (event.type === "mission.created")
      changes.names.set(nameOf(projectOf(event.data), event.data.missionID), stream);
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

const answerOf = (once: IdempotencyRecord, changes: Changes, world: StoredView): Answer => {
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

/**
 * `leaseMs`: null: claims do not expire. `ahead`: milliseconds by which the clock of leases is ahead of the clock of
 * all other times. Returns undefined if the stream is unknown or held, or if the bounds leave no room for the Task.
 */
export const claimMember =
  (
    stream: StreamID,
    worker: string,
    leaseMs: number | null,
    { ahead = () => 0, bounds }: { ahead?: () => number; bounds?: RunningBounds | undefined } = {},
  ): BatchMember<Claimed | undefined> =>
  (world, changes, now) => {
    const at = now.getTime() + ahead();
    const head = world.head(stream);
    if (head === undefined) return undefined;
    const lapsed = head.lease_until !== null && head.lease_until < at;
    if (head.holder !== null && !lapsed) return undefined;
    // Rank 0: the Task only has to be ended, which needs no room.
    if (bounds !== undefined && head.rank !== 0 && !hasRoom(world, stream, bounds)) return undefined;
    const epoch = head.epoch + 1;
    const lease_until = leaseMs === null ? null : at + leaseMs;
    changes.heads.set(stream, { ...head, epoch, holder: worker, lease_until });
    return { epoch, version: head.version, dueSeq: head.due_seq };
  };

const hasRoom = (world: StoredView, stream: StreamID, bounds: RunningBounds): boolean => {
  const project = world.project(stream);
  if (project === undefined) return true;
  const others = [...world.running()].flatMap(([other, its]) => (other === stream ? [] : [its]));
  return countRunning(bounds, others).lacks(project) === undefined;
};

const backoffMs = (fruitless: number): number => Math.min(60_000, 1000 * 2 ** Math.max(0, fruitless - 1));

/**
 * A release uses up the due time that the claim found, unless the run is `unfinished`; a due time that was set since
 * stays. A run that added nothing but its first event made no progress, which lengthens the backoff.
 */
export const releaseMember =
  (stream: StreamID, claimed: Claimed, unfinished: boolean): BatchMember<void> =>
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
    const due_at = head.lifecycle === "active" || unfinished ? now.getTime() + backoffMs(fruitless) : null;
    changes.heads.set(stream, { ...free, due_at, due_seq: head.due_seq + 1, fruitless });
  };

export const eraseMember =
  (stream: StreamID, expected?: number): BatchMember<boolean> =>
  (world, changes) => {
    if (expected !== undefined && world.head(stream)?.version !== expected) return false;
    changes.erased.add(stream);
    changes.revoked.add(stream);
    return true;
  };
