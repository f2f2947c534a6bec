import type { StreamID } from "../domain/event.ts";
import type { Claimed } from "./batch.ts";
import type { Claim } from "./store.ts";

/** The claims that this process holds. */
export type Held = {
  add(stream: StreamID, claimed: Claimed, release: () => Promise<void>): Claim;
  /** Aborts `lost` of whoever holds the stream here; with an epoch only of that claim. */
  lose(stream: StreamID, epoch?: number): void;
  entries(): { stream: StreamID; epoch: number }[];
};

export const createHeld = (): Held => {
  const claims = new Map<StreamID, { epoch: number; lost: AbortController }>();
  return {
    add(stream, claimed, release) {
      const lost = new AbortController();
      const entry = { epoch: claimed.epoch, lost };
      claims.set(stream, entry);
      let released: Promise<void> | undefined;
      const claim: Claim = {
        stream,
        fence: { stream, epoch: claimed.epoch },
        lost: lost.signal,
        release() {
          if (claims.get(stream) === entry) claims.delete(stream);
          return (released ??= release());
        },
        [Symbol.asyncDispose]: () => claim.release(),
      };
      return claim;
    },
    lose(stream, epoch) {
      const entry = claims.get(stream);
      if (entry === undefined || (epoch !== undefined && epoch !== entry.epoch)) return;
      claims.delete(stream);
      entry.lost.abort(new Error(`The claim on ${stream} is lost`));
    },
    entries: () => [...claims].map(([stream, { epoch }]) => ({ stream, epoch })),
  };
};
