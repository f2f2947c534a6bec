import { DatabaseError } from "pg";
import { messageOf } from "../../error.ts";
import type { Log } from "../../log.ts";
import { type BatchMember, type Changes, runMember, type StoredView } from "../batch/batch.ts";
import type { Space } from "../disk/disk.ts";
import { isFull } from "../disk/full.ts";
import { unavailable } from "../unavailable.ts";
import { isClash, isPassing, pauseAfter, requestMs } from "./fault.ts";
import type { Needs } from "./transaction.ts";

/**
 * Runs one transaction at a time; members that arrive meanwhile share the next one. A write that failed because of a
 * lost connection, a lock that was not free or the like is tried again, for as long as each member has time.
 */

export type Member = Needs & {
  run(base: StoredView, batch: Changes, now: Date): void;
  settle(): void;
};

type Waiting = Member & {
  urgent: boolean;
  /** The time until which it is tried, by `performance.now()`. */
  until: number;
  fail(error: unknown): void;
};

/**
 * `urgent`: see `Write.urgent`. `underClaim`: a run writes, which has time to wait and would otherwise lose its work.
 */
export type Manner = { urgent?: boolean | undefined; underClaim?: boolean };

/** How long a write under a claim is tried: as long as the claim's lease allows, in milliseconds. */
const claimMs = 60_000;

/** Immediate tries of a transaction that others overtook. */
const mostClashes = 10;

export type Pump = {
  submit<T>(needs: Partial<Needs>, member: BatchMember<T>, manner?: Manner): Promise<T>;
  /** For how long the current transaction has been under way, in milliseconds; 0: there is none. */
  underWay(): number;
  /** Refuses further members, and resolves when the others are written or have failed. */
  close(): Promise<void>;
};

export const createPump = (options: {
  /** Writes the members in one transaction, and settles them. */
  transact: (members: readonly Member[]) => Promise<void>;
  space: Space;
  log: Log;
  /** Aborts when the store closes: nothing is tried again. */
  signal: AbortSignal;
}): Pump => {
  const { transact, space, log, signal } = options;
  let waiting: Waiting[] = [];
  let pumping: Promise<void> | undefined;
  let begun = 0;
  let closed = false;

  const pump = async (): Promise<void> => {
    await new Promise(setImmediate);
    const timer = setInterval(expire, 500);
    for (let tries = 0; waiting.length > 0; ) {
      const members = waiting;
      waiting = [];
      begun = performance.now();
      const rest = await attempt(members);
      begun = 0;
      if (rest.length === 0) {
        tries = 0;
        continue;
      }
      waiting = [...rest, ...waiting];
      await pauseAfter(tries, signal);
      tries += 1;
    }
    clearInterval(timer);
    pumping = undefined;
  };

  /** Fails members that have waited too long behind a slow transaction. */
  const expire = (): void => {
    const now = performance.now();
    const late = waiting.filter(({ until }) => until < now);
    if (late.length === 0) return;
    waiting = waiting.filter(({ until }) => until >= now);
    for (const member of late) member.fail(new Error("the database currently accepts no writes"));
  };

  /** Resolves to the members that are to be tried again later; the others are settled or have failed. */
  const attempt = async (members: readonly Waiting[], tries = 1): Promise<Waiting[]> => {
    try {
      await transact(members);
      return [];
    } catch (error) {
      if (isClash(error) && tries < mostClashes) return attempt(members, tries + 1);
      let rest: Waiting[] = [];
      if (isPassing(error) && !signal.aborted) {
        const now = performance.now();
        rest = members.filter(({ until }) => until >= now);
      } else if (error instanceof DatabaseError && members.length > 1) {
        // The database rejected a row of one member; retry each alone, so that the others do not fail with it.
        for (const member of members) rest.push(...(await attempt([member])));
        return rest;
      } else if (isFull(error) && members.some(({ urgent }) => urgent) && (await space.giveUp())) {
        // The database may be on the disk of the reserve.
        return attempt(members);
      }
      const failed = members.filter((member) => !rest.includes(member));
      if (rest.length > 0) log.warn({ error: messageOf(error) }, "the database could not be written; retrying");
      if (failed.length > 0) log.error({ error: messageOf(error), members: failed.length }, "a transaction failed");
      for (const member of failed) member.fail(error);
      return rest;
    }
  };

  return {
    submit: <T>(needs: Partial<Needs>, member: BatchMember<T>, { urgent = false, underClaim = false }: Manner = {}) =>
      new Promise<T>((resolve, reject) => {
        if (closed) return reject(unavailable(new Error("the store is closed")));
        let settle = () => {};
        waiting.push({
          urgent,
          until: performance.now() + (underClaim ? claimMs : requestMs),
          streams: needs.streams ?? [],
          folds: needs.folds ?? [],
          appends: needs.appends ?? false,
          answers: needs.answers ?? [],
          names: needs.names ?? [],
          claims: needs.claims ?? [],
          run(base, batch, now) {
            try {
              const value = runMember(member, base, batch, now);
              settle = () => resolve(value);
            } catch (error) {
              settle = () => reject(error);
            }
          },
          settle: () => settle(),
          fail: (error) => reject(unavailable(error)),
        });
        pumping ??= pump();
      }),
    underWay: () => (begun === 0 ? 0 : performance.now() - begun),
    async close() {
      closed = true;
      await pumping;
    },
  };
};
