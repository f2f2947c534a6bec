import type { DomainEvent, Recorded, StreamID } from "../domain/event.ts";
import type { Claim, Committed, Due, Store, Write } from "./store.ts";

/**
 * How a worker runs a stream: claims it, writes through the claim, and keeps its fold up to date in the log's order.
 */

/** The claim is lost: nothing its holder decides may be written any more. */
export class ClaimLost extends Error {}

/**
 * Calls `work` with a claim on the stream; returns at once if another worker holds it. `stop` aborts with `signal` or
 * when the claim is lost. What `work` adds to `scope` is disposed before the claim is released. A lost claim is no
 * error. `urgent`: the run only ends the stream, see `Write.urgent`.
 */
export const withClaim = async (
  { store, worker, urgent = false }: { store: Store; worker: string; urgent?: boolean },
  stream: StreamID,
  signal: AbortSignal,
  work: (claim: Claim, stop: AbortSignal, scope: AsyncDisposableStack) => Promise<void>,
): Promise<void> => {
  const claim = await store.claim(stream, worker, urgent);
  if (claim === undefined) return;
  let unfinished = false;
  await using _held = { [Symbol.asyncDispose]: () => claim.release(unfinished) };
  await using scope = new AsyncDisposableStack();
  try {
    await work(claim, AbortSignal.any([signal, claim.lost]), scope);
  } catch (error) {
    if (error instanceof ClaimLost || claim.lost.aborted) return;
    if (!signal.aborted) {
      unfinished = true;
      throw error;
    }
    // Without this event, the end would look like a crash of the worker at this step. What was due is not done, so it
    // stays due.
    const stopped: DomainEvent = { type: "run.stopped", data: { reason: "the service stopped" } };
    const appends = [{ stream, expected: "any" as const, events: [stopped] }];
    const due = [{ stream, due: "as-it-is" as const }];
    await store.commit({ appends, due, fence: claim.fence, urgent: true });
  }
};

/**
 * Commits events through the claim and folds them in. `decidedAt`: the version that the decision was based on. Resolves
 * to false if others committed since then: nothing was written, their events are folded in, and the caller decides
 * again. Throws `ClaimLost`. `once`: a write that fails is not tried again, whatever `Fold.retry` says. `lazy`: see
 * `Write.lazy`.
 */
export type CommitEvents = (
  events: readonly DomainEvent[],
  options?: { decidedAt?: number; due?: Due | null; once?: boolean; lazy?: boolean },
) => Promise<boolean>;

export type Fold = {
  version: () => number;
  /** Folds in the next event of the stream. */
  absorb: (event: Recorded) => void;
  /** Other streams that become due in the same commit. */
  wakes?: (events: readonly DomainEvent[]) => NonNullable<Write["due"]>;
  /** Called with the events that this worker committed, before they are folded in. */
  recorded: (events: readonly Recorded[]) => void;
  /** Called with the events that others committed, when a write was based on an older version. */
  missed?: (events: readonly Recorded[]) => void;
  /** Whether the run only ends its stream, see `Write.urgent`. */
  urgent?: () => boolean;
  /** Called with the error of a write; resolves to true when the same write is to be tried again. */
  retry?: (error: unknown) => Promise<boolean>;
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

  const write = async (data: Write, once: boolean): Promise<Committed> => {
    for (;;) {
      try {
        return await store.commit(data);
      } catch (error) {
        if (once || fold.retry === undefined || !(await fold.retry(error))) throw error;
      }
    }
  };

  return async (events, { decidedAt, due, once = false, lazy = false } = {}) => {
    const data: Write = {
      appends: [{ stream, expected: decidedAt ?? "any", events }],
      fence,
      due: [...(due === undefined ? [] : [{ stream, due }]), ...(fold.wakes?.(events) ?? [])],
      urgent: fold.urgent?.() ?? false,
      lazy,
    };
    const done = await write(data, once);
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
