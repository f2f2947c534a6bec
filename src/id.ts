import { monotonicFactory } from "ulid";

const next = monotonicFactory();

export type IDKind = "task" | "ses" | "msg" | "call" | "slice" | "evt" | "req";

/** A server-made id: prefix, then a ULID in lower case (48 bits of time, 80 random), so that ids sort by creation. */
export const newID = (kind: IDKind): string => `${kind}_${next().toLowerCase()}`;

const form = /^[a-z]+_[0-9a-hjkmnp-tv-z]{26}$/;

/** Whether the text can be an id of ours; anything else is simply not found. */
export const isID = (kind: IDKind, text: string): boolean => text.startsWith(`${kind}_`) && form.test(text);
