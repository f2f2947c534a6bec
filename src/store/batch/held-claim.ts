import type { StreamID } from "../../domain/event.ts";
import type { Claimed } from "./member.ts";
import type { Claim } from "../store.ts";

type Entry = {
  stream: StreamID;
  epoch: number;
  /** When the claim was last known to hold, by `performance.now()`. */
  since: number;
};

/** The claims that this process holds. */
export type HeldClaims = {
  add(stream: StreamID, claimed: Claimed, since: number, release: (unfinished: boolean) => Promise<void>): Claim;
  /** Aborts `lost` of the claim that this process holds on the stream; with an epoch, only of that claim. */
  lose(stream: StreamID, epoch?: number): void;
  /** Aborts `lost` of the claim that this process holds on the stream if the claim's epoch is below this one. */
  loseBelow(stream: StreamID, epoch: number): void;
  renew(stream: StreamID, epoch: number, since: number): void;
  entries(): readonly Readonly<Entry>[];
};

export const createHeldClaims = (): HeldClaims => {
  const claims = new Map<StreamID, Entry & { lost: AbortController }>();
  const claimed: HeldClaims = {
    add(stream, { epoch }, since, release) {
      const lost = new AbortController();
      const entry = { stream, epoch, since, lost };
      claims.set(stream, entry);
      let released: Promise<void> | undefined;
      const claim: Claim = {
        stream,
        fence: { stream, epoch },
        lost: lost.signal,
        release(unfinished = false) {
          if (claims.get(stream) === entry) claims.delete(stream);
          return (released ??= release(unfinished));
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
    loseBelow(stream, epoch) {
      const held = claims.get(stream)?.epoch;
      if (held !== undefined && held < epoch) claimed.lose(stream, held);
    },
    renew(stream, epoch, since) {
      const entry = claims.get(stream);
      if (entry?.epoch === epoch) entry.since = since;
    },
    entries: () => [...claims.values()],
  };
  return claimed;
};
