import { setTimeout as wait } from "node:timers/promises";
import type { DomainEvent } from "../../domain/event.ts";
import type { Blobs, Store } from "../store.ts";
import type { Disk } from "./disk.ts";
import { isFull } from "./full.ts";

/**
 * How a run waits for space on the disk. The reply or the result that it has in hand stays in memory until it can be
 * written, and the wait is recorded, because it does not count towards the Task's time.
 */
export type Patience = Disposable & {
  /**
   * Resolves when the run may begin something that writes: at once, unless runs pause. Rejects when the run's signal
   * aborts.
   */
  space: () => Promise<void>;
  /**
   * After a failed write: resolves to true as soon as the write may be tried again, to false if it did not lack space.
   */
  retry: (error: unknown) => Promise<boolean>;
};

export type PatienceOptions = {
  disk: Pick<Disk, "shortage" | "plenty" | "onPause">;
  /** Commits an event through the run's claim, without waiting for space. */
  record: (event: DomainEvent) => Promise<unknown>;
  /** The run does not pause: it only ends its stream. */
  isEnding: () => boolean;
  /** Gives the run's place to others until disposed. */
  standAside: () => Disposable;
  signal: AbortSignal;
  now: () => Date;
};

/** Milliseconds between two tries of a write. */
const againMs = 500;

export const createPatience = (options: PatienceOptions): Patience => {
  const { disk, record, isEnding, standAside, signal, now } = options;
  let pausing: Promise<void> | undefined;

  /** Resolves to whether the event was written. */
  const tell = (event: DomainEvent): Promise<boolean> =>
    record(event).then(
      () => true,
      (error: unknown) => {
        if (!isFull(error)) throw error;
        return false;
      },
    );

  const pause = async (): Promise<void> => {
    const since = now().toISOString();
    await tell({ type: "run.paused", data: { code: "disk_low", reason: disk.shortage() ?? "waits for space" } });
    for (;;) {
      {
        using _aside = standAside();
        await disk.plenty(signal);
      }
      if (await tell({ type: "run.resumed", data: { code: "disk_low", since } })) return;
      await wait(againMs, undefined, { signal });
    }
  };
  const begin = (): Promise<void> =>
    (pausing ??= pause().finally(() => {
      pausing = undefined;
    }));

  const heard = disk.onPause((pauses) => {
    // A failure is noticed by the next caller of `space`.
    if (pauses && !isEnding()) void begin().catch(() => {});
  });

  return {
    async space() {
      signal.throwIfAborted();
      if (isEnding()) return;
      if (pausing !== undefined || disk.shortage() !== undefined) await begin();
    },
    async retry(error) {
      if (!isFull(error) || signal.aborted) return false;
      if (isEnding()) {
        await disk.plenty(signal);
        await wait(againMs, undefined, { signal });
      } else await begin();
      return true;
    },
    [Symbol.dispose]: () => heard[Symbol.dispose](),
  };
};

/** A store whose texts and files wait for space instead of failing. Events wait in `commitThroughClaim`. */
export const waitingForSpace = <S extends Store>(store: S, { retry }: Pick<Patience, "retry">): S => {
  const waiting =
    <Given extends unknown[], Answer>(write: (...given: Given) => Promise<Answer>) =>
    async (...given: Given): Promise<Answer> => {
      for (;;) {
        try {
          return await write(...given);
        } catch (error) {
          if (!(await retry(error))) throw error;
        }
      }
    };
  const { blobs } = store;
  const put: Blobs["put"] = waiting((bytes, exact) => blobs.put(bytes, exact));
  const write: Blobs["write"] = waiting((pieces, exact) => blobs.write(pieces, exact));
  return { ...store, blobs: { ...blobs, put, write } };
};
