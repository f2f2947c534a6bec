import { setTimeout as pause } from "node:timers/promises";
import { ServiceError } from "../error.ts";
import { isFull } from "./disk/full.ts";
import type { Pieces, Store } from "./store.ts";

/** A run survives an outage of the database: ending it would lose the work in hand, and it has time to wait. */

/** As long as the run's writes wait, and as the lease of its claim allows. */
const longestMs = 60_000;

const againMs = 500;

const reads = [
  "state",
  "mission",
  "read",
  "since",
  "position",
  "once",
  "list",
  "missionsNamed",
  "dispatched",
  "productions",
] as const satisfies (keyof Store)[];

/** The store for a run: its reads and its blobs, too, wait while the database cannot be reached. */
export const retryingReads = <S extends Store>(store: S, signal: AbortSignal): S => {
  // A file does not become unreachable for a while.
  if (store.kind === "sqlite") return store;
  const waiting =
    <Given extends unknown[], Answer>(operation: (...given: Given) => Promise<Answer>) =>
    async (...given: Given): Promise<Answer> => {
      const until = performance.now() + longestMs;
      for (;;) {
        try {
          return await operation(...given);
        } catch (error) {
          const passes = error instanceof ServiceError && error.code === "store_unavailable" && !isFull(error);
          if (!passes || performance.now() > until) throw error;
          await pause(againMs, undefined, { signal });
        }
      }
    };
  const { blobs } = store;
  return {
    ...store,
    blobs: {
      ...blobs,
      get: waiting((sha256: string) => blobs.get(sha256)),
      read: waiting((sha256: string) => blobs.read(sha256)),
      put: waiting((bytes: Uint8Array, exact?: boolean) => blobs.put(bytes, exact)),
      write: waiting((pieces: Pieces, exact?: boolean) => blobs.write(pieces, exact)),
    },
    ...Object.fromEntries(
      reads.map((name) => [name, waiting(store[name] as (...given: unknown[]) => Promise<unknown>)]),
    ),
  };
};
