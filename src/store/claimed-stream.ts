import type { DomainEvent, Recorded, StreamID } from "../domain/event.ts";
import type { Claim, Due, Store, Write } from "./store.ts";

/** Who moves a stream: claims it, writes through the claim, and has its fold follow in the log's order. */

/** The claim is gone: whatever its holder would still say is not wanted. */
export class ClaimLost extends Error {}

/**
 * Works at a stream while the claim is held and `signal` wants it; what `work` puts into `scope` ends before the claim
 * goes. A stream that somebody else has is theirs.
 */
export const withClaim = async (
  { store, worker }: { store: Store; worker: string },
  stream: StreamID,
  signal: AbortSignal,
  work: (claim: Claim, stop: AbortSignal, scope: AsyncDisposableStack) => Promise<void>,
): Promise<void> => {
  await using claim = await store.claim(stream, worker);
  if (claim === undefined) return;
  await using scope = new AsyncDisposableStack();
  try {
    await work(claim, AbortSignal.any([signal, claim.lost]), scope);
  } catch (error) {
    if (error instanceof ClaimLost || claim.lost.aborted) return;
    if (!signal.aborted) throw error;
    // So that this end is not taken for a death at this step.
    const stopped: DomainEvent = { type: "run.stopped", data: { reason: "the service stopped" } };
    await store.commit({ appends: [{ stream, expected: "any", events: [stopped] }], fence: claim.fence });
  }
};

/**
 * Commits facts and folds them in. `decidedAt`: the version they were decided at; false = others came in between, their facts
 * are folded in now: judge again. Throws `ClaimLost`.
 */
export type CommitEvents = (
  events: readonly DomainEvent[],
  options?: { decidedAt?: number; due?: Due | null },
) => Promise<boolean>;

export type Fold = {
  version: () => number;
  /** The next event of the stream. */
  absorb: (event: Recorded) => void;
  /** What has to be due in the same commit besides the stream. */
  wakes?: (events: readonly DomainEvent[]) => NonNullable<Write["due"]>;
  /** Hears what was committed here, before it is folded in. */
  recorded: (events: readonly Recorded[]) => void;
  /** Hears what others had committed when a write came too late. */
  missed?: (events: readonly Recorded[]) => void;
};

export const commitThroughClaim = (store: Store, { stream, fence }: Claim, fold: Fold): CommitEvents => {
  let folding: Promise<void> = Promise.resolve();
  const catchUp = (recorded: readonly Recorded[]): Promise<void> => {
    folding = folding.then(async () => {
      const first = recorded[0];
      const gap = first === undefined || first.version > fold.version() + 1;
      const missing = gap ? await store.read(stream, { after: fold.version() }) : recorded;
      if (first === undefined) fold.missed?.(missing);
      for (const event of missing) if (event.version === fold.version() + 1) fold.absorb(event);
    });
    return folding;
  };

  return async (events, { decidedAt, due } = {}) => {
    const done = await store.commit({
      appends: [{ stream, expected: decidedAt ?? "any", events }],
      fence,
      due: [...(due === undefined ? [] : [{ stream, due }]), ...(fold.wakes?.(events) ?? [])],
    });
    if (done.ok) {
      fold.recorded(done.recorded);
      await catchUp(done.recorded);
      return true;
    }
    if (done.reason !== "version") throw new ClaimLost();
    await catchUp([]);
    return false;
  };
};
