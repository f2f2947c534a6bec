import { monotonicFactory } from "ulid";

/** Random bytes from a pool: one system call per letter of an id took longer than writing the event that it names. */
const pool = new Uint8Array(1024);
let left = 0;
const random = (): number => {
  if (left === 0) {
    globalThis.crypto.getRandomValues(pool);
    left = pool.length;
  }
  return (pool[--left] ?? 0) / 256;
};

const next = monotonicFactory(random);

export type IDKind = "task" | "ses" | "msg" | "call" | "ask" | "slice" | "art" | "evt" | "req" | "hook" | "dlv";

/**
 * A new id: the prefix, then a ULID in lower case (48 bits of time, 80 random bits), so that ids sort by creation time.
 */
export const newID = (kind: IDKind): string => `${kind}_${next().toLowerCase()}`;

const form = /^[a-z]+_[0-9a-hjkmnp-tv-z]{26}$/;

/** Whether the text has the form of an id of this kind. An id of another form is simply not found. */
export const isID = (kind: IDKind, text: string): boolean => text.startsWith(`${kind}_`) && form.test(text);
