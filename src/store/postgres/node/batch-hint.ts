import type { StreamID } from "../../../domain/event.ts";
import type { Changes } from "../../batch/batch.ts";
import type { HeldClaims } from "../../batch/held-claim.ts";
import type { Hint } from "../../feed/hint.ts";
import type { FarLive } from "../../feed/live.ts";
import type { Head } from "../../sql/schema.ts";
import type { Due } from "../../store.ts";
import type { Heard } from "../notify.ts";
import type { Placing } from "./placement.ts";

/** What a batch tells other nodes, and what this node does with their hints. */

/** Milliseconds. No hint is sent for a stream that is due later than this; nodes find it by looking. */
const soonMs = 1_000;

/** `self`: this node. Streams that it has begun for itself run nowhere else, so others get no `due` hint for them. */
export const hintsOf = (
  { heads, states, erased, revoked }: Pick<Changes, "heads" | "states" | "erased" | "revoked">,
  before: ReadonlyMap<StreamID, Head>,
  { self, made, now }: { self: string | undefined; made: Placing["made"]; now: Date },
): Hint[] => {
  const own = new Set(made.flatMap(({ stream, movable, node = self }) => (!movable && node === self ? [stream] : [])));
  return [
    ...[...states.keys()].map((stream) => ["grown", stream] as const),
    ...[...erased].map((stream) => ["erased", stream] as const),
    ...[...revoked].map((stream) => ["revoked", stream, heads.get(stream)?.epoch ?? Number.MAX_SAFE_INTEGER] as const),
    ...[...heads.values()].flatMap(({ stream, holder, due_at, due_seq, rank }) =>
      due_at === null ||
      holder !== null ||
      own.has(stream) ||
      due_seq === before.get(stream)?.due_seq ||
      due_at > now.getTime() + soonMs
        ? []
        : [["due", stream, due_at, rank] as const],
    ),
  ];
};

export type DueSignal = {
  listen(listener: (stream: StreamID, due: Due) => void): Disposable;
  ring(stream: StreamID, due: Due): void;
};

export const createDueSignal = (): DueSignal => {
  const listeners = new Set<(stream: StreamID, due: Due) => void>();
  return {
    listen(listener) {
      listeners.add(listener);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
    ring(stream, due) {
      for (const listener of listeners) listener(stream, due);
    },
  };
};

/** Passes on what other nodes tell, by topic. */
export type ToldSignal = {
  listen(topic: string, listener: (words: readonly unknown[]) => void): Disposable;
  ring(topic: string, words: readonly unknown[]): void;
};

export const createToldSignal = (): ToldSignal => {
  const listeners = new Map<object, { topic: string; listener: (words: readonly unknown[]) => void }>();
  return {
    listen(topic, listener) {
      const key = {};
      listeners.set(key, { topic, listener });
      return { [Symbol.dispose]: () => void listeners.delete(key) };
    },
    ring(topic, words) {
      if (Array.isArray(words)) for (const one of listeners.values()) if (one.topic === topic) one.listener(words);
    },
  };
};

type Hears = { held: HeldClaims; live: () => FarLive; due: DueSignal; told: ToldSignal };

export const createHeard =
  ({ held, live, due, told }: Hears): Heard =>
  (hint) => {
    switch (hint[0]) {
      case "revoked":
        return held.loseBelow(hint[1], hint[2]);
      case "due":
        return due.ring(hint[1], { at: new Date(hint[2]), rank: hint[3] });
      case "watched":
        return live().watched(hint[1]);
      case "live":
        return live().receive(hint[1], hint[2]);
      case "told":
        return told.ring(hint[2], hint[3]);
    }
  };
